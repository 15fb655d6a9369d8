// SPDX-License-Identifier: Apache-2.0
// A kernel of the user's own, built without CMake.
#include <lockstep/lockstep.h>
#include <xla/ffi/api/ffi.h>

#include <cstdio>

namespace ls = lockstep;
namespace xffi = xla::ffi;

xffi::Error twice(xffi::Buffer<xffi::F32> x, xffi::ResultBuffer<xffi::F32> y) {
  for (std::size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = 2 * x.typed_data()[i];
  return xffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(kTwice, twice,
                       xffi::Ffi::Bind().Arg<xffi::Buffer<xffi::F32>>().Ret<xffi::Buffer<xffi::F32>>());

int main() {
  ls::ffi::register_ffi_target<kTwice>("twice");
  const ls::Array y = ls::ffi::ffi_call("twice", ls::ResultType({2}), {ls::array({1.f, 2.5f})});
  const std::vector<float> values = y.to_host<float>();
  std::printf("twice %g %g\n", static_cast<double>(values[0]), static_cast<double>(values[1]));
}
