#include "lockstep/jit/ffi_call.h"

#include <stdexcept>

#include "lockstep/jit/custom_derivative.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/vmap.h"
#include "xla/ffi/api/ffi.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_equal;
using test::line_mesh;
using ::testing::HasSubstr;
namespace xffi = xla::ffi;

/// by * x, of any shape.
xffi::Error scaled(float by, xffi::Buffer<xffi::F32> x, xffi::ResultBuffer<xffi::F32> y) {
  for (std::size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = by * x.typed_data()[i];
  return xffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(
    kScaled, scaled,
    xffi::Ffi::Bind().Attr<float>("by").Arg<xffi::Buffer<xffi::F32>>().Ret<xffi::Buffer<xffi::F32>>());

xffi::Error refusing(std::string_view how, xffi::Buffer<xffi::F32>, xffi::ResultBuffer<xffi::F32>) {
  if (how == "throws") throw std::runtime_error("the kernel threw");
  return xffi::Error(xffi::ErrorCode::kInvalidArgument, "the kernel refuses");
}
XLA_FFI_DEFINE_HANDLER(kRefusing, refusing,
                       xffi::Ffi::Bind()
                           .Attr<std::string_view>("how")
                           .Arg<xffi::Buffer<xffi::F32>>()
                           .Ret<xffi::Buffer<xffi::F32>>());

Array by_kernel(const Array& x, float by) {
  ffi::register_ffi_target<kScaled>("scaled");
  return ffi::ffi_call("scaled", ResultType(x.shape()), {x},
                       {.attributes = {{"by", by}}, .vmap_method = VmapMethod::kBroadcastAll});
}

TEST(FfiCall, GivesWhatTheKernelWrites_UnderJitAndVmapAndOfSplitOperands) {
  const Array x = array({1.f, -2.f, 0.5f, 4.f});
  expect_equal(by_kernel(x, 2), 2 * x);
  auto f = jit([](Array x) { return by_kernel(x + 1, -0.5f) * 2; });
  expect_equal(f(x), -(x + 1));
  expect_equal(f(device_put(x, NamedSharding(line_mesh(), P("x")))), -(x + 1));
  const Array rows = reshape(arange(6.f), {3, 2});
  expect_equal(vmap([](Array x) { return by_kernel(x, 3); })(rows), 3 * rows);
  expect_equal(vmap([](Array x) {
                 return ffi::ffi_call("scaled", ResultType({2}), {x},
                                      {.attributes = {{"by", 3.f}}, .vmap_method = VmapMethod::kSequential});
               })(rows),
               3 * rows);
}

TEST(FfiCall, HasTheDerivativeThatItIsGiven) {
  auto f = custom_vjp([](Array x) { return by_kernel(x, 2); },
                      [](Array x) { return std::pair(by_kernel(x, 2), x); },
                      [](Array, Array ct) { return by_kernel(ct, 2); });
  auto loss = [&](Array x) { return sum(f(x) * x); };
  expect_equal(jit([&](Array x) { return grad(loss)(x); })(array({1.f, 3.f})), array({4.f, 12.f}));
  EXPECT_THAT(error_of<TraceError>([] { grad([](Array x) { return sum(by_kernel(x, 2)); })(array({1.f})); }),
              HasSubstr("[ffi_call] the kernel scaled has no derivative"));
}

TEST(FfiCall, WhatAKernelRefuses_IsTheCallersError) {
  ffi::register_ffi_target<kRefusing>("refusing");
  auto text = [](const char* how) {
    return error_of<Error>([&] {
      ffi::ffi_call("refusing", ResultType({2}), {ones({2})}, {.attributes = {{"how", std::string(how)}}});
    });
  };
  EXPECT_THAT(text("throws"), HasSubstr("the kernel threw"));
  EXPECT_THAT(text("returns"), HasSubstr("the kernel refuses"));
  EXPECT_THAT(error_of<Error>([] { ffi::ffi_call("nothing", ResultType({2}), {ones({2})}); }),
              HasSubstr("[ffi_call] there is no kernel \"nothing\" (at "));
  ffi::register_ffi_target<kScaled>("scaled");
  EXPECT_THAT(error_of<Error>([] { ffi::register_ffi_target<kRefusing>("scaled"); }),
              HasSubstr("[register_ffi_target] there is another kernel \"scaled\""));
  EXPECT_THAT(error_of<TraceError>([] {
                vmap([](Array x) {
                  return ffi::ffi_call("scaled", ResultType({}), {x}, {.attributes = {{"by", 3.f}}});
                })(ones({2}));
              }),
              HasSubstr("[ffi_call] the kernel scaled is called under vmap"));
}

}  // namespace
}  // namespace lockstep
