// SPDX-License-Identifier: Apache-2.0
// Programs on GPUs that call the host, and kernels of the user's own. A plugin that looks like CUDA's and
// computes on the CPU takes the place of GPUs, a library that knows its addresses that of CUDA's driver.

#include <dlfcn.h>

#include <cstdint>
#include <cstring>

#include "lockstep/jit/callback.h"
#include "lockstep/jit/debug.h"
#include "lockstep/jit/ffi_call.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/ops/collectives.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/processes.h"
#include "tests/programs/test_gpus.h"
#include "xla/ffi/api/ffi.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_equal;
using test::on_gpus;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_processes;
using testing::say;
namespace xffi = xla::ffi;

LOCKSTEP_CHILD(calls_the_host_from_gpus) {
  initialize();
  const Array x = array({1.f, -2.f, 0.5f, 4.f});
  const auto doubled = [](const HostArray& given) {
    HostArray out = given;
    for (float& value : out.values<float>()) value *= 2;
    return out;
  };
  expect_equal(pure_callback(doubled, ResultType({4}), x), 2 * x);
  auto f = jit([&](Array x) { return pure_callback(doubled, ResultType({4}), x + 1) * 3; });
  expect_equal(f(x), 6 * (x + 1));
  const Array split = device_put(x, NamedSharding(make_mesh({{"x", 2}}), P("x")));
  expect_equal(f(split), 6 * (x + 1));
  // Once for each time that the program reaches it, in its order.
  std::vector<float> seen;
  auto g = jit([&](Array x) {
    for (int i = 0; i < 3; ++i)
      x = io_callback(
          [&](const HostArray& given) {
            seen.push_back(given.values<float>()[0]);
            return given;
          },
          ResultType({4}), x + 1);
    return x;
  });
  expect_equal(g(x), x + 3);
  EXPECT_EQ(seen, (std::vector<float>{2, 3, 4}));
  jit([](Array x) {
    debug::print("x is {}", x);
    return x;
  })(split)
      .block_until_ready();
  // Of each size of elements, and none.
  const auto same = [](const HostArray& given) { return given; };
  for (const DType dtype : {DType::kBool, DType::kI8, DType::kBF16, DType::kF64, DType::kC64}) {
    const Array one = astype(x, dtype);
    expect_equal(astype(pure_callback(same, ResultType({4}, dtype), one), DType::kC64),
                 astype(one, DType::kC64));
  }
  EXPECT_EQ(pure_callback(same, ResultType({0, 3}), zeros({0, 3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(pure_callback(same, ResultType(Shape{}), full({}, 7.f)).item<float>(), 7);
  const std::string error = error_of<std::runtime_error>([&] {
    jit([&](Array x) {
      return pure_callback([](const HostArray&) -> HostArray { throw std::runtime_error("no such table"); },
                           ResultType({4}), x);
    })(x)
        .block_until_ready();
  });
  EXPECT_THAT(error, HasSubstr("no such table"));
  shutdown();
}

TEST(GpuCalls, CallbacksAndPrints_HaveTheValuesOfTheDevices) {
  for (const auto& process :
       run_processes({.count = 1, .child = "calls_the_host_from_gpus", .env = on_gpus()})) {
    EXPECT_EQ(process.exit_code, 0) << process.log;
    EXPECT_THAT(process.log, HasSubstr("x is [1. -2. 0.5 4.]"));
  }
}

LOCKSTEP_CHILD(calls_the_host_without_a_driver) {
  initialize();
  const std::string error = error_of<Error>([] {
    pure_callback([](const HostArray& given) { return given; }, ResultType({2}), array({1.f, 2.f}))
        .block_until_ready();
  });
  say(error);
}

TEST(GpuCalls, WithoutCudasDriver_ThrowAnError) {
  if (dlopen("libcuda.so.1", RTLD_LAZY) != nullptr) GTEST_SKIP() << "this machine has CUDA's driver";
  testing::Variables variables = on_gpus();
  variables.erase("LD_LIBRARY_PATH");
  for (const auto& process :
       run_processes({.count = 1, .child = "calls_the_host_without_a_driver", .env = variables}))
    EXPECT_THAT(process.log, AllOf(HasSubstr("CUDA's driver cannot be called"), HasSubstr("libcuda.so.1")));
}

/// The addresses of the plugin that looks like CUDA's, for the host.
template <class T>
T* on_host(T* device) {
  const auto address = reinterpret_cast<std::uintptr_t>(device);
  return reinterpret_cast<T*>(address & ~(std::uintptr_t{1} << 62));
}

/// What a kernel for GPUs would do with its stream.
xffi::Error scaled_on_gpu(void* stream, float by, xffi::Buffer<xffi::F32> x,
                          xffi::ResultBuffer<xffi::F32> y) {
  if (stream == nullptr) return xffi::Error::Internal("there is no stream");
  if (on_host(x.typed_data()) == x.typed_data()) return xffi::Error::Internal("an address of the host");
  for (std::size_t i = 0; i < x.element_count(); ++i)
    on_host(y->typed_data())[i] = by * on_host(x.typed_data())[i];
  return by == 0 ? xffi::Error::InvalidArgument("by is 0") : xffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(kScaledOnGpu, scaled_on_gpu,
                       xffi::Ffi::Bind()
                           .Ctx<xffi::PlatformStream<void*>>()
                           .Attr<float>("by")
                           .Arg<xffi::Buffer<xffi::F32>>()
                           .Ret<xffi::Buffer<xffi::F32>>());

LOCKSTEP_CHILD(calls_kernels_on_gpus) {
  ffi::register_ffi_target<kScaledOnGpu>("scaled", "cuda");
  initialize();
  const auto scaled = [](const Array& x, float by) {
    return ffi::ffi_call("scaled", ResultType(x.shape()), {x},
                         {.attributes = {{"by", by}}, .sharding_rule = "i j -> i j"});
  };
  const Array x = reshape(arange(12.f), {4, 3});
  expect_equal(scaled(x, 2), 2 * x);
  // Its arrays are row-major, whatever the program does with them before and after.
  auto f = jit([&](Array x) { return transpose(scaled(transpose(x) + 1, 3)); });
  expect_equal(f(x), 3 * (x + 1));
  expect_equal(f(device_put(x, NamedSharding(make_mesh({{"x", 2}}), P("x")))), 3 * (x + 1));
  EXPECT_THAT(error_of<Error>([&] { scaled(x, 0).block_until_ready(); }), HasSubstr("by is 0"));
  ffi::register_ffi_target<kScaledOnGpu>("for CPUs", "cpu");
  EXPECT_THAT(error_of<Error>([&] {
                ffi::ffi_call("for CPUs", ResultType({4, 3}), {x});
              }),
              HasSubstr("there is no kernel \"for CPUs\" for cuda"));
  EXPECT_THAT(error_of<Error>([&] { ffi::register_ffi_target<kScaledOnGpu>("x", "metal"); }),
              HasSubstr("expected cpu or cuda"));
  shutdown();
}

TEST(GpuCalls, KernelsOfTheUser_GetTheDevicesMemoryAndItsStream) {
  for (const auto& process : run_processes({.count = 1, .child = "calls_kernels_on_gpus", .env = on_gpus()}))
    EXPECT_EQ(process.exit_code, 0) << process.log;
}

LOCKSTEP_CHILD(calls_the_host_in_two_processes) {
  initialize();
  const Mesh mesh = make_mesh({{"x", 4}});
  auto f = jit([](Array x) {
    return pure_callback(
        [](const HostArray& given) {
          HostArray out = given;
          for (float& value : out.values<float>()) value += 1;
          return out;
        },
        ResultType(x.shape()), x);
  });
  const Array x = device_put(arange(8.f), NamedSharding(mesh, P()));
  EXPECT_EQ(f(x).to_host<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  shutdown();
}

TEST(GpuCalls, InSeveralProcesses_EachCallsItsOwn) {
  for (const auto& process : run_processes(
           {.count = 2, .child = "calls_the_host_in_two_processes", .env = on_gpus(), .coordinator = true}))
    EXPECT_EQ(process.exit_code, 0) << process.log;
}

}  // namespace
}  // namespace lockstep
