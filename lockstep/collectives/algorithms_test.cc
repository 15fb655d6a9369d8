// SPDX-License-Identifier: Apache-2.0
// Collectives between hosts by every algorithm that LOCKSTEP_ALGORITHMS can name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/collectives/rounds/algorithm.h"
#include "lockstep/collectives/test_world.h"
#include "lockstep/testing/processes.h"

namespace lockstep::collectives {
namespace {

using ::testing::HasSubstr;

// The thread sanitizer makes all this many times slower.
#ifdef __SANITIZE_THREAD__
const std::vector<std::int64_t> kLengths = {0, 3, 5'000, 70'001};
const std::vector<std::int64_t> kInexactCounts = {400'003};
#else
const std::vector<std::int64_t> kLengths = {0, 3, 900, 5'000, 70'001, 300'000};
const std::vector<std::int64_t> kInexactCounts = {4'097, 131'072, 400'003};
#endif

/// The devices of the job, in order.
std::vector<int> all_devices(const World& world) {
  std::vector<int> devices(world.options().device_process.size());
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

/// This process's World of a job in which each process is a host, with these rows. Six hosts are so many that
/// a leader does not tell all others which operation it is in.
std::unique_ptr<World> world_with(coordination::KeyValueStore& store, Kind kind, Algorithm algorithm) {
  WorldOptions options = child_options(store, 1, /*hosts=*/testing::child_count());
  options.algorithms = std::string(name_of(kind)) + "=" + std::string(name_of(algorithm));
  options.job_id = options.algorithms;
  return World::create(std::move(options));
}

template <class Body>
void each_algorithm(Body body) {
  for (Kind kind :
       {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather, Kind::kAllToAll, Kind::kBroadcast})
    for (Algorithm algorithm : kAlgorithms)
      if (is_algorithm_of(algorithm, kind)) body(kind, algorithm);
}

/// Sums that depend on their order come out alike everywhere.
void expect_the_same_bits(World& world) {
  const std::vector<int> devices = all_devices(world);
  const int n = static_cast<int>(devices.size()), rank = world.options().process_index;
  Communicator& communicator = world.communicator(devices);
  for (const std::int64_t count : kInexactCounts) {
    std::vector<float> in(static_cast<std::size_t>(count)), out(in.size()), all(in.size() * devices.size());
    for (std::size_t i = 0; i < in.size(); ++i)
      in[i] = 1.0f / static_cast<float>(1 + (static_cast<std::size_t>(rank) * 7919 + i * 104729) % 10007);
    const Call sum = make_call({.kind = Kind::kAllReduce, .dtype = DType::kF32, .count = count}, n);
    communicator.run(sum, rank, in.data(), out.data());
    communicator.run(sum, rank, in.data(), in.data());
    ASSERT_EQ(std::memcmp(out.data(), in.data(), out.size() * sizeof(float)), 0) << "in place";
    const Call gather = make_call({.kind = Kind::kAllGather, .dtype = DType::kF32, .count = count}, n);
    communicator.run(gather, rank, out.data(), all.data());
    for (int other = 0; other < n; ++other) {
      ASSERT_EQ(std::memcmp(all.data() + static_cast<std::size_t>(other) * out.size(), out.data(),
                            out.size() * sizeof(float)),
                0)
          << count << " elements: " << other << " has other bits than " << rank;
    }
  }
}

/// Checks the results of a collective of integers.
void expect_what_it_is(World& world, Kind kind, int device) {
  const std::vector<int> devices = all_devices(world);
  const int n = static_cast<int>(devices.size()), rank = device;
  const auto value = [](int of, std::int64_t at) {
    return static_cast<std::int32_t>(of * 1'000'003 + at * 7);
  };
  for (const std::int64_t count : kLengths) {
    for (int root : kind == Kind::kBroadcast ? std::vector{0, n - 2} : std::vector{0}) {
      const Call call = make_call({.kind = kind, .dtype = DType::kI32, .count = count, .root = root}, n);
      std::vector<std::int32_t> in(call.input_bytes / 4), out(call.output_bytes / 4);
      for (std::size_t at = 0; at < in.size(); ++at) in[at] = value(rank, static_cast<std::int64_t>(at));
      world.communicator(devices).run(call, rank, in.data(), out.data());
      std::vector<std::int32_t> wanted(out.size());
      for (std::int64_t at = 0; at < static_cast<std::int64_t>(out.size()); ++at) {
        std::int32_t& one = wanted[static_cast<std::size_t>(at)];
        if (kind == Kind::kAllReduce || kind == Kind::kReduceScatter) {
          for (int other = 0; other < n; ++other)
            one += value(other, kind == Kind::kAllReduce ? at : rank * count + at);
        } else {
          one = kind == Kind::kBroadcast   ? value(root, at)
                : kind == Kind::kAllGather ? value(static_cast<int>(at / count), at % count)
                                           : value(static_cast<int>(at / count), rank * count + at % count);
        }
      }
      // At once: a check of each element would take most of the test's time.
      if (out == wanted) continue;
      const auto at =
          static_cast<std::size_t>(std::mismatch(out.begin(), out.end(), wanted.begin()).first - out.begin());
      FAIL() << call.text << ", at " << at << ", root " << root << ": " << out[at] << " where it is "
             << wanted[at];
    }
  }
}

LOCKSTEP_CHILD(goes_every_way) {
  FolderKeyValueStore store(shared_folder());
  each_algorithm([&](Kind kind, Algorithm algorithm) {
    SCOPED_TRACE(std::string(name_of(kind)) + " by " + std::string(name_of(algorithm)));
    const auto world = world_with(store, kind, algorithm);
    ASSERT_NO_FATAL_FAILURE(expect_what_it_is(*world, kind, world->options().process_index));
    if (kind == Kind::kAllReduce) {
      ASSERT_NO_FATAL_FAILURE(expect_the_same_bits(*world));
    }
    world->leave();
  });
}

TEST(AlgorithmsBetweenHosts, EachAlgorithm_ComputesItsCollective_WithTheSameBitsOnAll) {
  for (const auto& result :
       testing::run_processes({.count = 6, .child = "goes_every_way", .deadline = std::chrono::seconds(240)}))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

LOCKSTEP_CHILD(has_two_devices) {
  ChildWorld world(2, {}, /*hosts=*/testing::child_count());
  for_each_local_device(*world, [&](int device) {
    for (Kind kind :
         {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather, Kind::kAllToAll, Kind::kBroadcast})
      ASSERT_NO_FATAL_FAILURE(expect_what_it_is(*world, kind, device));
  });
}

TEST(AlgorithmsBetweenHosts, SeveralMembersOnEachHost_ComputeTheCollective) {
  for (const auto& result : testing::run_processes(
           {.count = 6, .child = "has_two_devices", .deadline = std::chrono::seconds(240)}))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

LOCKSTEP_CHILD(has_ways_of_its_own) {
  FolderKeyValueStore store(shared_folder());
  WorldOptions options = child_options(store, 1, /*hosts=*/2);
  if (testing::child_index() == 1) options.algorithms = "all-reduce=ring";
  const auto world = World::create(std::move(options));
  std::vector<float> data(100'000);
  const Call sum = sum_call(100'000, 2);
  EXPECT_THAT(
      message_of<DivergenceError>([&] {
        world->communicator(all_devices(*world)).run(sum, testing::child_index(), data.data(), data.data());
      }),
      HasSubstr("process 0 of 2 and process 1 of 2 have different LOCKSTEP_ALGORITHMS"));
}

TEST(AlgorithmsBetweenHosts, ProcessesWithDifferentTables_FailWithAnError) {
  for (const auto& result : testing::run_processes(
           {.count = 2, .child = "has_ways_of_its_own", .deadline = std::chrono::seconds(60)}))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

}  // namespace
}  // namespace lockstep::collectives
