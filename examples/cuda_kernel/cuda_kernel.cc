// SPDX-License-Identifier: Apache-2.0
// Calls a kernel of CUDA (scaled.cu) in a jitted program, and the same on CPUs:
//
//   LOCKSTEP_PLATFORM=cuda build/release/examples/cuda_kernel
//   LOCKSTEP_PLATFORM=cpu build/release/examples/cuda_kernel
#include <lockstep/lockstep.h>

#include <cstdio>

#include "examples/cuda_kernel/scaled.h"
#include "xla/ffi/api/ffi.h"

namespace ls = lockstep;
namespace xffi = xla::ffi;

namespace {

xffi::Error scaled(float by, xffi::Buffer<xffi::F32> x, xffi::ResultBuffer<xffi::F32> y) {
  for (std::size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = by * x.typed_data()[i];
  return xffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(
    kScaledOnCpu, scaled,
    xffi::Ffi::Bind().Attr<float>("by").Arg<xffi::Buffer<xffi::F32>>().Ret<xffi::Buffer<xffi::F32>>());

}  // namespace

int main() {
  ls::ffi::register_ffi_target<scaled_on_gpu>("scaled", "cuda");
  ls::ffi::register_ffi_target<kScaledOnCpu>("scaled", "cpu");
  ls::initialize();
  auto f = ls::jit([](ls::Array x) {
    return ls::ffi::ffi_call("scaled", ls::ResultType(x.shape()), {x + 1}, {.attributes = {{"by", 0.5f}}});
  });
  const ls::Array y = f(ls::arange(4.f));
  ls::shutdown();
  const std::vector<float> values = y.to_host<float>();
  std::printf("%g %g %g %g\n", static_cast<double>(values[0]), static_cast<double>(values[1]),
              static_cast<double>(values[2]), static_cast<double>(values[3]));
}
