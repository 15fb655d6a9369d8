// SPDX-License-Identifier: Apache-2.0
// The memory of GPUs: tensors of other libraries in it, copies to the host, its use, and its end. A plugin
// that looks like CUDA's and computes on the CPU takes the place of GPUs.

#include <cstdlib>

#include "lockstep/array/host_view.h"
#include "lockstep/array/test_dlpack.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/processes.h"
#include "tests/programs/test_gpus.h"

namespace lockstep {
namespace {

using test::expect_equal;
using test::on_gpus;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::run_processes;
using testing::say;

/// A tensor of another library in a device's memory.
struct TensorOnDevice : dlpack::Foreign {
  TensorOnDevice(void* data, int device) : Foreign({4}) {
    tensor.tensor.data = data;
    tensor.tensor.device_type = dlpack::kCuda;
    tensor.tensor.device_id = device;
  }
  /// The error of taking it, which deletes it.
  std::string refused() {
    std::string error = test::error_of<Error>([&] { from_dlpack(get()); });
    EXPECT_EQ(times_deleted(), 1) << error;
    return error;
  }
};

LOCKSTEP_CHILD(exchanges_tensors_on_gpus) {
  initialize();
  const Device second = local_devices()[1];
  const std::vector<float> values = {1, 2, 3, 4};
  const Array x = device_put(HostView(values), SingleDeviceSharding(second));
  const auto given = to_dlpack(x);
  const dlpack::Tensor& place = reinterpret_cast<const dlpack::Versioned*>(given.get())->tensor;
  EXPECT_EQ(place.device_type, dlpack::kCuda);
  EXPECT_EQ(place.device_id, 1);

  TensorOnDevice foreign(place.data, 1);
  Array y = from_dlpack(foreign.get());
  EXPECT_EQ(y.sharding(), SingleDeviceSharding(second));
  EXPECT_EQ(reinterpret_cast<const dlpack::Versioned*>(to_dlpack(y).get())->tensor.data, place.data);
  EXPECT_EQ((y + y).to_host<float>(), (std::vector<float>{2, 4, 6, 8}));
  // What is donated is not overwritten: the memory is the other library's.
  Array z = jit([](Array y) { return y + 1; }, {.donate_argnums = {0}})(y);
  EXPECT_EQ(z.to_host<float>(), (std::vector<float>{2, 3, 4, 5}));
  EXPECT_EQ(x.to_host<float>(), values);
  EXPECT_EQ(foreign.times_deleted(), 1);

  TensorOnDevice absent(place.data, 7), unaligned(place.data, 1), strided(place.data, 1), empty(nullptr, 0);
  EXPECT_THAT(absent.refused(), AllOf(HasSubstr("CUDA GPU 7"), HasSubstr("process 0 of 1 does not use")));
  unaligned.tensor.tensor.byte_offset = 4;
  EXPECT_THAT(unaligned.refused(), HasSubstr("4 bytes behind a multiple"));
  strided.strides = {2};
  strided.tensor.tensor.strides = strided.strides.data();
  EXPECT_THAT(strided.refused(), HasSubstr("strides [2] for shape [4]"));
  empty.shape[0] = 0;
  EXPECT_EQ(from_dlpack(empty.get()).shape(), (Shape{0}));
  EXPECT_EQ(empty.times_deleted(), 1);
  TensorOnDevice to_host(place.data, 1);
  EXPECT_THAT(test::error_of<Error>([&] { dlpack_memory(to_host.get()); }),
              HasSubstr("expected a tensor in host memory"));
  say("exchanged");
}

TEST(GpuMemory, DlpackTensors_StayInTheDevicesMemory) {
  const auto result =
      run_processes({.count = 1, .child = "exchanges_tensors_on_gpus", .env = on_gpus()}).at(0);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, HasSubstr("exchanged"));
}

LOCKSTEP_CHILD(copies_while_it_goes_on) {
  initialize();
  const std::vector<float> values = {1, 2, 3, 4};
  const Array x = device_put(HostView(values), NamedSharding(make_mesh({{"i", 2}}), P("i")));
  Array sums = x + x, parts = x + 1, gone = x + 2;
  for (const Array& each : {sums, sums, parts, gone}) each.copy_to_host_async();
  gone.delete_();
  EXPECT_EQ(sums.to_host<float>(), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(static_cast<const float*>(parts.addressable_shards()[1].data)[1], 5);
  const Array whole = array(values), empty = zeros({0});
  whole.copy_to_host_async();
  empty.copy_to_host_async();
  EXPECT_EQ(sum(whole).item<float>(), 10);
  EXPECT_EQ(whole.to_host<float>(), values);
  EXPECT_EQ(empty.to_host<float>().size(), 0u);
  EXPECT_THAT(test::error_of<TraceError>([&] {
                jit([](Array x) {
                  x.copy_to_host_async();
                  return x;
                })(x);
              }),
              HasSubstr("[copy_to_host_async]"));
  setenv("GPU_ON_CPU_RESULTS", "fail", 1);
  const Array failed = x * x;
  failed.copy_to_host_async();
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(test::error_of<PjrtError>([&] { failed.to_host<float>(); }), HasSubstr("the device gave up"));
  unsetenv("GPU_ON_CPU_RESULTS");
  say("copied");
}

TEST(GpuMemory, CopyToHostAsync_GivesTheElementsToLaterReads) {
  const auto result = run_processes({.count = 1, .child = "copies_while_it_goes_on", .env = on_gpus()}).at(0);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, HasSubstr("copied"));
}

/// Each device computes a part of the table of all products.
Array outer_product_sum(const Array& x) { return sum(expand_dims(x, 1) * expand_dims(x, 0), 1); }

LOCKSTEP_CHILD(runs_out_of_memory) {
  initialize();
  const NamedSharding parts(make_mesh({{"i", device_count()}}), P("i"));
  const Array x = device_put(HostView(std::vector<float>(1024)), parts);
  const auto stats = local_devices()[1].memory_stats();
  ASSERT_TRUE(stats);
  EXPECT_EQ(stats->bytes_in_use, 3 << 20);
  EXPECT_EQ(stats->bytes_limit, 4 << 20);
  EXPECT_EQ(stats->peak_bytes_in_use, 3 << 20);
  EXPECT_EQ(stats->num_allocs, std::nullopt);
  const Array alone = device_put(x, SingleDeviceSharding(local_devices()[1]));
  const auto of_one = jit(outer_product_sum);
  const Array zeros_of_one = of_one(alone);
  setenv("GPU_ON_CPU_FULL", "1", 1);
  EXPECT_THAT(test::error_of<OutOfMemoryError>([&] { of_one(alone); }),
              AllOf(HasSubstr("process 0 of 1 has no memory left on CudaDevice(id=1)"),
                    HasSubstr("Out of memory while trying to allocate 4096 bytes."),
                    HasSubstr("it needs: 4.0 KiB of arguments"),
                    HasSubstr("in use: 3.0 MiB of 4.0 MiB, at most 3.0 MiB so far"),
                    ContainsRegex("4.0 MiB  f32\\[1024,1024\\], mul at .*gpu_memory_test.cc:[0-9]+")));
  EXPECT_THAT(test::error_of<OutOfMemoryError>([&] { array(std::vector<float>(1000)); }),
              AllOf(HasSubstr("CudaDevice(id=0) for f32[1000], 3.9 KiB (at "),
                    HasSubstr("in use: 3.0 MiB of 4.0 MiB")));
  unsetenv("GPU_ON_CPU_FULL");
  expect_equal(of_one(alone), zeros_of_one);
  // Over several devices some of which have perhaps begun: the job ends.
  setenv("GPU_ON_CPU_FULL", "1", 1);
  EXPECT_THAT(test::error_of<OutOfMemoryError>([&] { jit(outer_product_sum)(x); }),
              ContainsRegex("2.0 MiB  f32\\[512,1024\\], mul at .*gpu_memory_test.cc:[0-9]+"));
  say("told");
}

TEST(GpuMemory, AComputationThatDoesNotFit_SaysWhatItNeedsAndWhatIsInUse) {
  testing::Variables env = on_gpus();
  env["GPU_ON_CPU_MEMORY"] = "3145728 4194304";
  const auto result = run_processes({.count = 1, .child = "runs_out_of_memory", .env = env}).at(0);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, HasSubstr("told"));
}

}  // namespace
}  // namespace lockstep
