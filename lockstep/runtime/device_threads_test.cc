// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/device_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::runtime {
namespace {

const std::vector<int> kTwo = {0, 1}, kThree = {2, 0, 1}, kFour = {0, 1, 2, 3};

TEST(DeviceThreads, AllDevices_RunAtTheSameTime) {
  DeviceThreads threads(4);
  std::barrier meet(4);  // would hang if one waited for another to end
  for (int round = 0; round < 100; ++round) threads.run(kFour, [&](std::size_t) { meet.arrive_and_wait(); });
}

TEST(DeviceThreads, TheFirstDevice_RunsOnTheCallersThread) {
  DeviceThreads threads(3);
  std::thread::id first;
  threads.run(kThree, [&](std::size_t device) {
    if (device == 0) first = std::this_thread::get_id();
  });
  EXPECT_EQ(first, std::this_thread::get_id());
}

TEST(DeviceThreads, TheLowestDevicesExceptionIsThrown_AfterAllAreDone) {
  DeviceThreads threads(4);
  std::atomic<int> done = 0;
  try {
    threads.run(kFour, [&](std::size_t device) {
      ++done;
      if (device >= 2) throw std::runtime_error(std::to_string(device));
    });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "2");
  }
  EXPECT_EQ(done, 4);
  threads.run(kTwo, [&](std::size_t) { ++done; });
  EXPECT_EQ(done, 6);
}

TEST(DeviceThreads, CallsForOtherDevices_RunAtTheSameTime) {
  DeviceThreads threads(4);
  std::barrier meet(4);  // would hang if one call waited for the other
  const std::vector<int> others = {3, 2};
  std::jthread other([&] { threads.run(others, [&](std::size_t) { meet.arrive_and_wait(); }); });
  threads.run(kTwo, [&](std::size_t) { meet.arrive_and_wait(); });
}

}  // namespace
}  // namespace lockstep::runtime
