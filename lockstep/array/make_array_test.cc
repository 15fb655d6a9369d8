// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/make_array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <set>

#include "lockstep/array/device_put.h"
#include "lockstep/array/host.h"
#include "lockstep/array/host_memory.h"
#include "lockstep/array/multihost.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/processes.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::run_processes;

Array host(const std::vector<float>& values, const Shape& shape) {
  return internal::array_from_host(values.data(), DType::kF32, shape);
}

/// Two processes with two devices each, which make arrays that none of them has whole.
LOCKSTEP_CHILD(makes_arrays) {
  initialize();
  const int process = process_index();
  const Mesh mesh = make_mesh({{"x", 4}}), square = make_mesh({{"x", 2}, {"y", 2}});
  const NamedSharding rows(mesh, P("x")), columns(square, P(nullptr, "y"));

  int calls = 0;
  auto place = [&](const std::vector<IndexRange>& index) {
    ++calls;
    std::vector<float> part;
    for (std::int64_t i = index[0].start; i < index[0].limit; ++i)
      for (std::int64_t j = index[1].start; j < index[1].limit; ++j)
        part.push_back(static_cast<float>(10 * i + j));
    return part;
  };
  Array x = make_array_from_callback<float>({4, 2}, rows, place);
  EXPECT_EQ(calls, 2);
  EXPECT_FALSE(x.is_fully_addressable());
  const std::vector<float> all = {0, 1, 10, 11, 20, 21, 30, 31};
  EXPECT_EQ(multihost::process_allgather(x).to_host<float>(), all);
  calls = 0;
  Array y = make_array_from_callback<float>({4, 2}, columns, place);
  EXPECT_EQ(calls, 2) << "each part that this process holds, once";
  EXPECT_EQ(y.to_host<float>(), all) << "its columns are all with each process";
  EXPECT_THAT(
      error_of<ShapeError>([&] {
        make_array_from_callback<float>({4, 2}, rows, [](const auto&) { return std::vector<float>{1}; });
      }),
      AllOf(HasSubstr("gave 1 elements for a part of 2"), HasSubstr("make_array_test.cc")));

  auto shards = x.global_shards();
  ASSERT_EQ(shards.size(), 4u);
  EXPECT_EQ(shards[3].index[0], (IndexRange{3, 4}));
  EXPECT_EQ(shards[3].data == nullptr, process == 0);
  EXPECT_EQ(y.global_shards()[2].replica_id, 1);
  EXPECT_EQ(x.addressable_shards().size(), 2u);
  EXPECT_EQ(x.sharding().devices_indices_map({4, 2}).at(devices()[2])[0], (IndexRange{2, 3}));

  std::vector<Array> parts;
  for (Device device : local_devices()) {
    const auto n = static_cast<float>(device.id());
    parts.push_back(device_put(host({n, 10 * n}, {1, 2}), SingleDeviceSharding(device)));
  }
  std::swap(parts[0], parts[1]);
  Array z = make_array_from_single_device_arrays({4, 2}, rows, parts);
  EXPECT_THAT(multihost::process_allgather(z).to_host<float>(), ElementsAre(0, 0, 1, 10, 2, 20, 3, 30));
  parts[0] = parts[1];
  EXPECT_THAT(error_of<ShardingError>([&] {
                make_array_from_single_device_arrays({4, 2}, rows, parts);
              }),
              HasSubstr("two arrays are on"));
  parts.pop_back();
  EXPECT_THAT(error_of<ShardingError>([&] {
                make_array_from_single_device_arrays({4, 2}, rows, parts);
              }),
              HasSubstr("2 devices that process " + std::to_string(process)));
  const Array described = shape_of({4, 2}, float32, rows);
  EXPECT_THAT(error_of<DescribedError>([&] { device_put(described, columns); }),
              HasSubstr("[device_put] needs the elements of f32[4,2]"));
  EXPECT_THAT(error_of<DescribedError>([&] { described.block_until_ready(); }),
              HasSubstr("[block_until_ready] needs the elements of f32[4,2]"));
  // A mesh of process 0 only.
  const NamedSharding of_one(Mesh({devices()[0], devices()[1]}, {2}, {"one"}), P("one"));
  if (process == 0) {
    parts = {device_put(host({1, 2}, {2}), SingleDeviceSharding(devices()[0])),
             device_put(host({3, 4}, {2}), SingleDeviceSharding(devices()[1]))};
    EXPECT_THAT(make_array_from_single_device_arrays({4}, of_one, parts).to_host<float>(),
                ElementsAre(1, 2, 3, 4));
  } else {
    const Array elsewhere = make_array_from_single_device_arrays({4}, of_one, {}, float32);
    EXPECT_EQ(elsewhere.aval(), (Aval{float32, {4}, false, {}}));
    EXPECT_TRUE(elsewhere.addressable_shards().empty());
    EXPECT_THAT(error_of<DTypeError>([&] { make_array_from_single_device_arrays({4}, of_one, {}); }),
                ::testing::AllOf(HasSubstr("expected the dtype as the fourth argument (at "),
                                 HasSubstr("process 1 of 2 has no device of")));
  }
  EXPECT_EQ(local_to_global_shape(rows, {6, 2}), (Shape{12, 2}));
  EXPECT_EQ(local_to_global_shape(columns, {6, 2}), (Shape{6, 2}));
}

/// Two processes with four devices each: from what each of them holds, in any order of devices and by any
/// spec, comes the same array as from the whole.
LOCKSTEP_CHILD(makes_arrays_in_any_order) {
  initialize();
  std::vector<float> values(8 * 16);
  std::iota(values.begin(), values.end(), 0.f);
  const Array whole = host(values, {8, 16});
  const std::vector<PartitionSpec> specs = {P("x"),      P(nullptr, "x"), P("x", "y"),
                                            P("y", "x"), P({"y", "x"}),   P(nullptr, {"x", "y"})};
  std::vector<Device> order = devices();
  std::mt19937 random(7);
  int with_gaps = 0;
  for (int round = 0; round < 60; ++round) {
    if (round > 0) std::ranges::shuffle(order, random);
    const Mesh mesh(order, round % 2 == 0 ? std::vector<std::int64_t>{2, 4} : std::vector<std::int64_t>{4, 2},
                    {"x", "y"});
    const NamedSharding sharding(mesh, specs[static_cast<std::size_t>(round) % specs.size()]);
    const Array wanted = device_put(whole, sharding);
    std::set<std::int64_t> rows, columns;
    for (const Shard& shard : wanted.addressable_shards()) {
      for (std::int64_t i = shard.index[0].start; i < shard.index[0].limit; ++i) rows.insert(i);
      for (std::int64_t j = shard.index[1].start; j < shard.index[1].limit; ++j) columns.insert(j);
    }
    for (const std::set<std::int64_t>* held : {&rows, &columns})
      with_gaps += *held->rbegin() - *held->begin() + 1 != std::ssize(*held);
    std::vector<float> mine;
    for (std::int64_t i : rows)
      for (std::int64_t j : columns) mine.push_back(values[static_cast<std::size_t>(i * 16 + j)]);
    const Shape held = {std::ssize(rows), std::ssize(columns)};
    const Array x = make_array_from_process_local_data(sharding, mine, held, Shape{8, 16});
    HostMemory memory = HostMemory::allocate(float32, held);
    std::ranges::copy(mine, memory.elements<float>().begin());
    const Array in_place = make_array_from_process_local_data(sharding, std::move(memory), Shape{8, 16});
    const std::vector<Shard> parts = wanted.addressable_shards();
    for (const Array& each : {x, in_place})
      for (std::size_t i = 0; i < parts.size(); ++i)
        EXPECT_EQ(std::memcmp(each.addressable_shards()[i].data, parts[i].data,
                              static_cast<std::size_t>(num_elements(parts[i].shape)) * 4),
                  0)
            << sharding.to_string() << " in round " << round;
  }
  EXPECT_GT(with_gaps, 10);
  multihost::sync_global_devices("end");
}

/// Two processes with two devices each: from a process's own array to one over all, and back.
LOCKSTEP_CHILD(goes_between_local_and_global) {
  initialize();
  const auto process = static_cast<float>(process_index());
  const Mesh mesh = make_mesh({{"x", 4}}), square = make_mesh({{"host", 2}, {"device", 2}});
  const Array mine = host({process, process + 10, process + 20, process + 30}, {4});
  const Array all = multihost::host_local_array_to_global_array(mine, mesh, P("x"));
  EXPECT_EQ(all.shape(), (Shape{8}));
  EXPECT_EQ(all.sharding(), NamedSharding(mesh, P("x")));
  EXPECT_THAT(multihost::process_allgather(all).to_host<float>(), ElementsAre(0, 10, 20, 30, 1, 11, 21, 31));
  const Array back = multihost::global_array_to_host_local_array(all, mesh, P("x"));
  EXPECT_TRUE(back.is_fully_addressable());
  EXPECT_EQ(back.to_host<float>(), mine.to_host<float>());
  EXPECT_EQ(back.sharding(), NamedSharding(mesh.local_mesh(process_index()), P("x")));
  EXPECT_EQ(internal::data_of(multihost::global_array_to_host_local_array(back, mesh, P("x"))),
            internal::data_of(back));
  EXPECT_EQ(internal::data_of(multihost::host_local_array_to_global_array(all, mesh, P("x"))),
            internal::data_of(all));

  // Each of a process's devices has all that the process has; and an array that is split otherwise.
  const Array copies = multihost::host_local_array_to_global_array(mine, square, P("host"));
  EXPECT_EQ(copies.shape(), (Shape{8}));
  EXPECT_THAT(multihost::process_allgather(copies).to_host<float>(),
              ElementsAre(0, 10, 20, 30, 1, 11, 21, 31));
  const Array whole = multihost::global_array_to_host_local_array(all, square, P());
  EXPECT_EQ(whole.shape(), (Shape{8}));
  EXPECT_THAT(whole.to_host<float>(), ElementsAre(0, 10, 20, 30, 1, 11, 21, 31));

  const std::vector<Device> d = devices();
  const Mesh others({d[0], d[1]}, {2}, {"x"});
  if (process == 1) {
    EXPECT_THAT(
        error_of<ShardingError>([&] { multihost::host_local_array_to_global_array(mine, others, P("x")); }),
        AllOf(HasSubstr("has no device of process 1"), HasSubstr("make_array_test.cc:")));
  }
  multihost::sync_global_devices("end");
}

LOCKSTEP_CHILD(speaks_to_all) {
  initialize();
  const auto process = static_cast<float>(process_index());
  Array mine = host({process, -0.0f}, {2});
  EXPECT_EQ(multihost::process_allgather(mine).shape(), (Shape{3, 2}));
  EXPECT_EQ(multihost::process_allgather(mine, true).to_host<float>(),
            (std::vector<float>{0, 0, 1, 0, 2, 0}));
  EXPECT_EQ(multihost::broadcast_one_to_all(mine).to_host<float>()[0], 0);
  Array from_two = multihost::broadcast_one_to_all(mine, process == 2);
  EXPECT_EQ(from_two.to_host<float>()[0], 2);
  EXPECT_TRUE(std::signbit(from_two.to_host<float>()[1]));
  EXPECT_THAT(error_of<Error>([&] { multihost::broadcast_one_to_all(mine, process > 0); }),
              HasSubstr("2 processes said that they are the source"));
  multihost::assert_equal(host({1, 2}, {2}), "the same");
  EXPECT_THAT(error_of<DivergenceError>(
                  [&] { multihost::assert_equal(host({process == 1 ? 1.f : 0.f}, {1}), "the seed"); }),
              AllOf(HasSubstr("the seed"), HasSubstr("[0, 2] and [1]")));
  multihost::agree("lr", 0.1);
  multihost::agree("steps", 100);
  multihost::agree("run", "a name");
  EXPECT_THAT(
      error_of<DivergenceError>([&] { multihost::agree("lr", process == 2 ? 1e-3 : 1e-4); }),
      HasSubstr("[agree] lr is not the same everywhere: '0.0001' on processes 0, 1, '0.001' on process 2"));
  const std::string text(300, 'x');
  multihost::agree("text", text);
  EXPECT_THAT(error_of<DivergenceError>([&] { multihost::agree("text", text + std::to_string(process)); }),
              HasSubstr("on process 0"));
  multihost::sync_global_devices("here");
  if (process == 1) return;
  EXPECT_THAT(
      error_of<Error>([&] { multihost::sync_global_devices("there", std::chrono::milliseconds(300)); }),
      HasSubstr("1"));
}

TEST(MakeArray, OverSeveralProcesses_HasEveryPart) {
  for (const auto& result : run_processes({.count = 2,
                            .child = "makes_arrays",
                            .env = {{"LOCKSTEP_NUM_CPU_DEVICES", "2"}},
                            .coordinator = true})) {
    EXPECT_EQ(result.exit_code, 0) << result.log;
  }
}

TEST(MakeArray, FromProcessLocalData_InAnyOrderOfDevices_HasEveryPart) {
  for (const auto& result : run_processes({.count = 2,
                            .child = "makes_arrays_in_any_order",
                            .env = {{"LOCKSTEP_NUM_CPU_DEVICES", "4"}},
                            .coordinator = true})) {
    EXPECT_EQ(result.exit_code, 0) << result.log;
  }
}

TEST(Multihost, LocalArrays_BecomeGlobalArraysAndBack) {
  for (const auto& result : run_processes({.count = 2,
                            .child = "goes_between_local_and_global",
                            .env = {{"LOCKSTEP_NUM_CPU_DEVICES", "2"}},
                            .coordinator = true})) {
    EXPECT_EQ(result.exit_code, 0) << result.log;
  }
}

TEST(Multihost, GathersBroadcastsAndComparesValuesOfAllProcesses) {
  for (const auto& result : run_processes({.count = 3, .child = "speaks_to_all", .coordinator = true})) {
    EXPECT_EQ(result.exit_code, 0) << result.log;
  }
}

}  // namespace
}  // namespace lockstep
