// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <numeric>

#include "lockstep/array/array_view.h"
#include "lockstep/array/computation.h"
#include "lockstep/array/data.h"
#include "lockstep/array/device_put.h"
#include "lockstep/array/make_array.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/testing/errors.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;

// These tests run in the process of array_test.cc, which has four CPU devices.
Mesh four() { return make_mesh({{"x", 4}}); }

/// Aligned memory of 0, 1, 2, … that tells when it is let go.
struct Watched {
  explicit Watched(std::int64_t count) {
    const std::size_t bytes = (static_cast<std::size_t>(count) * sizeof(float) + 63) / 64 * 64;
    auto* memory = static_cast<float*>(std::aligned_alloc(64, bytes));
    std::iota(memory, memory + count, 0.0f);
    elements = std::span<const float>(memory, static_cast<std::size_t>(count));
    owner.reset(memory, [freed = freed](float* p) {
      std::free(p);
      freed->set_value();
    });
  }

  bool is_freed() const { return done.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  /// Blocks until it is let go, which the plugin may do on a thread of its own.
  bool will_be_freed() const { return done.wait_for(std::chrono::seconds(60)) == std::future_status::ready; }

  std::shared_ptr<std::promise<void>> freed = std::make_shared<std::promise<void>>();
  std::shared_future<void> done = freed->get_future().share();
  std::span<const float> elements;
  std::shared_ptr<float> owner;
};

std::vector<float> ascending(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

TEST(HostMemory, SplitByRows_LiesInTheCallersMemoryUntilTheArrayIsGone) {
  Watched memory(4 * 64);
  Array x = device_put(HostMemory(memory.elements, {8, 32}, std::exchange(memory.owner, nullptr)),
                       NamedSharding(four(), P("x")));
  auto shards = x.addressable_shards();
  ASSERT_EQ(shards.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(shards[i].data, memory.elements.data() + 64 * i);
  EXPECT_EQ(x.to_host<float>(), ascending(256));
  EXPECT_FALSE(memory.is_freed());
  x = Array();
  EXPECT_TRUE(memory.will_be_freed());
}

TEST(HostMemory, Replicated_AllDevicesReadTheSameMemory) {
  Watched memory(64);
  Array x = device_put(HostMemory(memory.elements, {64}, std::exchange(memory.owner, nullptr)),
                       NamedSharding(four(), P()));
  for (const Shard& shard : x.addressable_shards()) EXPECT_EQ(shard.data, memory.elements.data());
  x.delete_();
  EXPECT_TRUE(memory.will_be_freed());
}

TEST(HostMemory, SplitByColumns_IsCopied) {
  Watched memory(8 * 64);
  Array x = device_put(HostMemory(memory.elements, {8, 64}, std::exchange(memory.owner, nullptr)),
                       NamedSharding(four(), P(nullptr, "x")));
  EXPECT_TRUE(memory.will_be_freed());
  EXPECT_EQ(x.to_host<float>(), ascending(512));
}

TEST(HostMemory, UnalignedMemory_IsCopied) {
  Watched memory(65);
  Array x = array(HostMemory(memory.elements.subspan(1), {64}, std::exchange(memory.owner, nullptr)));
  EXPECT_TRUE(memory.will_be_freed());
  EXPECT_EQ(x.to_host<float>()[63], 64);
}

TEST(HostMemory, ThePartOfThisProcess_LiesInTheCallersMemory) {
  Watched memory(64);
  Array x = make_array_from_process_local_data(
      NamedSharding(four(), P("x")), HostMemory(memory.elements, {64}, std::exchange(memory.owner, nullptr)));
  EXPECT_EQ(x.addressable_shards()[3].data, memory.elements.data() + 48);
  x = Array();
  EXPECT_TRUE(memory.will_be_freed());
}

TEST(HostMemory, AllocatedAndFilled_IsTakenByTheArrayWithoutACopy) {
  HostMemory memory = HostMemory::allocate(DType::kI32, {4, 16});
  std::iota(memory.elements<std::int32_t>().begin(), memory.elements<std::int32_t>().end(), 0);
  const void* place = memory.data();
  Array x = array(std::move(memory));
  EXPECT_EQ(x.addressable_shards()[0].data, place);
  EXPECT_EQ(x.to_host<std::int32_t>()[63], 63);
  EXPECT_EQ(array(HostMemory(std::vector<float>{1, 2, 3}, {3})).to_host<float>(),
            (std::vector<float>{1, 2, 3}));
}

TEST(HostMemory, WrongShapesDTypesAndShardings_AreRefused) {
  EXPECT_EQ(error_of<ShapeError>([] {
              HostMemory(std::vector<float>{1, 2, 3}, {2});
            }),
            "[HostMemory] 3 elements do not fill shape [2]");
  EXPECT_THAT(error_of<ShapeError>([] { HostMemory::allocate(DType::kF32, {-1}); }), HasSubstr("at least 0"));
  EXPECT_THAT(error_of<DTypeError>([] { HostMemory::allocate(DType::kF32, {1}).elements<std::int32_t>(); }),
              AllOf(HasSubstr("are f32"), HasSubstr("written as i32")));
  EXPECT_THAT(error_of<Error>([] { HostMemory(std::vector<float>{1}, {1}).elements<float>(); }),
              HasSubstr("another owner"));
  EXPECT_THAT(error_of<ShardingError>([] {
                device_put(HostMemory(std::vector<float>{1, 2, 3}, {3}), NamedSharding(four(), P("x")));
              }),
              HasSubstr("[device_put]"));
}

/// x + x, with x given up.
Array doubled_in_place(const Array& x) {
  Trace trace("double");
  Array input = trace.input(x.aval());
  const Array sum = ir::lax::add(input, input);
  const internal::ArrayType* type = internal::data_of(x)->type;
  auto computation =
      internal::Computation::compile(trace.finish(std::span(&sum, 1)), std::span(&type, 1),
                                     {.in_shardings = {}, .out_shardings = {}, .donated = {true}});
  const Array* argument = &x;
  return computation->run(std::span(&argument, 1)).front();
}

TEST(HostMemory, DonatedToAComputation_IsNotWrittenTo) {
  Watched memory(64);
  std::shared_ptr<float> held = memory.owner;
  Array x = device_put(HostMemory(memory.elements, {64}, std::exchange(memory.owner, nullptr)),
                       NamedSharding(four(), P("x")));
  Array twice = doubled_in_place(x);
  EXPECT_TRUE(x.is_deleted());
  EXPECT_EQ(twice.to_host<float>()[63], 126);
  EXPECT_EQ(std::vector<float>(memory.elements.begin(), memory.elements.end()), ascending(64));
  held.reset();
  EXPECT_TRUE(memory.will_be_freed());
}

TEST(Donation, OfAViewedArray_DoesNotChangeTheView) {
  Array x = array(HostView(ascending(64)));
  const ArrayView<float> view = x.view<float>();
  Array twice = doubled_in_place(x);
  EXPECT_TRUE(x.is_deleted());
  EXPECT_EQ(twice.to_host<float>()[63], 126);
  EXPECT_EQ(view(63), 63);
  // Where nobody looks, the memory is reused.
  const void* place = twice.addressable_shards()[0].data;
  EXPECT_EQ(doubled_in_place(twice).addressable_shards()[0].data, place);
}

TEST(Donation, PartsGatheredFromColumns_AreReusedForTheResult) {
  // Parts of 128 KB, which are gathered into memory of the array's own.
  Array x = device_put(HostMemory(ascending(512 * 256), {512, 256}), NamedSharding(four(), P(nullptr, "x")));
  const void* place = x.addressable_shards()[2].data;
  Array twice = doubled_in_place(x);
  EXPECT_EQ(twice.addressable_shards()[2].data, place);
  EXPECT_EQ(twice.to_host<float>()[512 * 256 - 1], 2 * (512 * 256 - 1));
}

/// An array of 64 times its number on each device.
std::vector<Array> parts() {
  std::vector<Array> parts;
  for (Device device : local_devices()) {
    const std::vector<float> values(64, static_cast<float>(device.id()));
    parts.push_back(device_put(HostMemory(values, {64}), SingleDeviceSharding(device)));
  }
  return parts;
}

TEST(MakeArrayFromSingleDeviceArrays, SharesTheirMemory) {
  std::vector<Array> arrays = parts();
  Array whole = make_array_from_single_device_arrays({256}, NamedSharding(four(), P("x")), arrays);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(whole.addressable_shards()[i].data, arrays[i].addressable_shards()[0].data);
  arrays[1].delete_();
  arrays.clear();
  EXPECT_EQ(whole.to_host<float>()[64], 1);
  EXPECT_EQ(whole.to_host<float>()[255], 3);
}

TEST(MakeArrayFromSingleDeviceArrays, DonatingOneOfThem_LeavesTheOther) {
  std::vector<Array> arrays = parts();
  Array whole = make_array_from_single_device_arrays({256}, NamedSharding(four(), P("x")), arrays);
  Array twice = doubled_in_place(arrays[3]);
  EXPECT_TRUE(arrays[3].is_deleted());
  EXPECT_EQ(twice.to_host<float>()[0], 6);
  EXPECT_EQ(whole.to_host<float>()[255], 3);
  Array all_twice = doubled_in_place(whole);
  EXPECT_EQ(all_twice.to_host<float>()[255], 6);
  EXPECT_EQ(arrays[2].to_host<float>()[0], 2);
  // Where nothing shares the memory any more, it is reused.
  arrays.clear();
  const void* place = all_twice.addressable_shards()[3].data;
  EXPECT_EQ(doubled_in_place(all_twice).addressable_shards()[3].data, place);
}

}  // namespace
}  // namespace lockstep
