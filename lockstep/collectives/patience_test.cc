// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/patience.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

namespace lockstep::collectives {
namespace {

cpu_set_t cpus(int first, int count) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu = first; cpu < first + count; ++cpu) CPU_SET(cpu, &set);
  return set;
}

struct Process {
  cpu_set_t cpus;
  int devices;
};

bool crowded(const std::vector<Process>& processes, std::optional<double> quota = std::nullopt) {
  Crowding crowding(quota);
  for (const Process& process : processes) crowding.add(process.cpus, process.devices);
  return crowding.crowded();
}

TEST(Crowding, MoreDevicesThanCpus_IsFound) {
  EXPECT_FALSE(crowded({{cpus(0, 1), 1}}));
  EXPECT_TRUE(crowded({{cpus(0, 1), 2}}));
  EXPECT_FALSE(crowded({{cpus(0, 2), 1}, {cpus(0, 2), 1}}));
  EXPECT_TRUE(crowded({{cpus(0, 2), 1}, {cpus(0, 2), 1}, {cpus(0, 2), 1}}));
  // Each has CPUs of its own.
  EXPECT_FALSE(crowded({{cpus(0, 1), 1}, {cpus(1, 1), 1}, {cpus(2, 1), 1}, {cpus(3, 1), 1}}));
  EXPECT_TRUE(crowded({{cpus(0, 1), 1}, {cpus(0, 1), 1}}));
}

TEST(Crowding, AControlGroupWithLessTimeThanTheDevicesNeed_IsFound) {
  const std::vector<Process> two = {{cpus(0, 64), 1}, {cpus(0, 64), 1}};
  EXPECT_FALSE(crowded(two, 2.0));
  EXPECT_TRUE(crowded(two, 1.5));
}

/// Over all the ways in which the awaited one can run.
template <class Body>
void each_way(Body body) {
  for (const bool is_crowded : {false, true}) {
    for (const bool here : {false, true}) {
      Crowding crowding(is_crowded ? std::optional(0.5) : std::nullopt);
      crowding.add(cpus(0, 2), 1);
      Patience patience(crowding);
      body(patience, [here](std::uint32_t) { return here; });
    }
  }
}

TEST(Patience, Wait_ReturnsWhetherTheConditionHolds) {
  each_way([](Patience& patience, auto awaited_on) {
    EXPECT_TRUE(patience.wait([] { return true; }, awaited_on));
    int looks = 0;
    EXPECT_TRUE(patience.wait([&] { return ++looks >= 2; }, awaited_on));
    EXPECT_EQ(looks, 2);
    EXPECT_FALSE(patience.wait([] { return false; }, awaited_on));
  });
}

TEST(Patience, Wait_EndsWithoutTheAwaited_AndSeesALateChange) {
  each_way([](Patience& patience, auto awaited_on) {
    std::atomic<bool> come = false;
    std::thread other([&] { come = true; });
    // Yields between such waits, where a communicator would sleep.
    while (!patience.wait([&] { return come.load(); }, awaited_on)) std::this_thread::yield();
    other.join();
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(patience.wait([] { return false; }, awaited_on));
    EXPECT_TRUE(patience.wait([&] { return come.load(); }, awaited_on));
  });
}

}  // namespace
}  // namespace lockstep::collectives
