// SPDX-License-Identifier: Apache-2.0
// Processes that list the devices of a communicator in different orders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <ostream>
#include <random>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/test_world.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/rounds.h"

namespace lockstep::collectives {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

void run(Communicator& communicator, int rank, const Call& call) {
  std::vector<float> data(call.input_bytes / sizeof(float), 1.0f);
  communicator.run(call, rank, data.data(), data.data());
  for (float x : data) EXPECT_EQ(x, static_cast<float>(communicator.size()));
}

/// How the lists of devices of a job's processes differ.
struct Lists {
  static constexpr std::array kWays = {
      "equal",      "two devices of a process", "two devices of one host", "two hosts",
      "a rotation", "a device is missing"};
  std::string way;
  int processes = 2, devices_per_process = 1, hosts = 1;
  int odd = 0;  ///< the process with the other list
  std::vector<int> usual, other;

  explicit Lists(int seed) {
    std::minstd_rand random(static_cast<unsigned>(seed) * 2 + 1);
    random.discard(10);
    const auto below = [&](std::size_t n) { return random() / 7 % n; };
    way = kWays[static_cast<std::size_t>(seed) % kWays.size()];
    processes = 2 + static_cast<int>(below(3));
    devices_per_process = 1 + static_cast<int>(below(2));
    if (way == "two devices of a process") devices_per_process = 2;
    hosts = way == "two hosts" || below(3) == 0 ? 2 : 1;
    if (way == "a device is missing") processes = std::max(processes, 3);
    odd = static_cast<int>(below(static_cast<std::size_t>(processes)));
    for (int device = 0; device < processes * devices_per_process; ++device) usual.push_back(device);
    std::shuffle(usual.begin(), usual.end(), random);
    other = usual;
    const auto place = [&](int device) { return std::ranges::find(other, device); };
    const auto last = static_cast<int>(usual.size()) - 1;
    if (way == "two devices of a process") {
      const int process = static_cast<int>(below(static_cast<std::size_t>(processes)));
      std::iter_swap(place(2 * process), place(2 * process + 1));
    } else if (way == "two devices of one host") {
      std::iter_swap(place(0), place(devices_per_process == 2 ? 1 : hosts == 1 ? last : 0));
      if (other == usual) std::iter_swap(place(0), place(last));
    } else if (way == "two hosts") {
      std::iter_swap(place(0), place(last));
    } else if (way == "a rotation") {
      std::rotate(other.begin(), other.begin() + 1, other.end());
    } else if (way == "a device is missing") {
      int gone = static_cast<int>(below(usual.size()));
      if (devices_per_process == 1 && gone == odd) gone = odd == 0 ? last : 0;
      other.erase(place(gone));
    }
  }
};

std::ostream& operator<<(std::ostream& out, const Lists& lists) {
  out << lists.way << ", " << lists.processes << " processes of " << lists.devices_per_process
      << " devices on " << lists.hosts << " hosts; process " << lists.odd << " has";
  for (const int device : lists.other) out << ' ' << device;
  out << ", the others";
  for (const int device : lists.usual) out << ' ' << device;
  return out;
}

LOCKSTEP_CHILD(makes_communicators_of_its_lists) {
  const Lists lists(std::stoi(testing::child_arguments().at(0)));
  ChildWorld world(lists.devices_per_process, {}, lists.hosts);
  const std::vector<int>& list = world.process() == lists.odd ? lists.other : lists.usual;
  std::mutex mutex;
  for_each_local_device(*world, [&](int device) {
    const Call call = sum_call(4, static_cast<int>(list.size()));
    const auto rank = std::ranges::find(list, device) - list.begin();
    if (rank == static_cast<std::ptrdiff_t>(list.size())) return;
    const std::string said = message_of<DivergenceError>([&] {
      // In both orders, which are the same for all processes.
      std::vector<int> all = lists.usual;
      if (lists.way == "equal") {
        run(world->communicator(all, call.text, device), static_cast<int>(rank), call);
        std::ranges::reverse(all);
        run(world->communicator(all, call.text, device),
            static_cast<int>(all.size() - 1) - static_cast<int>(rank), call);
      }
      run(world->communicator(list, call.text, device), static_cast<int>(rank), call);
    });
    std::lock_guard lock(mutex);
    testing::say("said: " + said);
  });
}

TEST(Divergence, DifferentListsOfDevices_NameTheProcessThatDiffers) {
  const int count = testing::rounds("LOCKSTEP_TEST_LISTS", 2 * static_cast<int>(Lists::kWays.size()));
  for (int seed = 0; seed < count; ++seed) {
    const Lists lists(seed);
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ": " << lists);
    const auto results = testing::run_processes({.count = lists.processes,
                                                 .child = "makes_communicators_of_its_lists",
                                                 .arguments = {std::to_string(seed)},
                                                 .deadline = testing::kAtOnce});
    const std::string odd = fmt::format("process {} of {}", lists.odd, lists.processes);
    int named = 0;
    for (const auto& result : results) {
      EXPECT_FALSE(result.timed_out);
      if (lists.way == "equal") {
        EXPECT_EQ(result.exit_code, 0);
        EXPECT_THAT(result.log, HasSubstr("said: no exception"));
        EXPECT_THAT(result.log, Not(HasSubstr("said: process")));
        continue;
      }
      // Processes of different hosts that do not know each other yet hear it from the coordinator.
      const bool says = result.log.find("said: another exception") == std::string::npos;
      EXPECT_TRUE(says || lists.hosts > 1) << result.log;
      if (says) {
        EXPECT_THAT(result.log, AllOf(HasSubstr(odd), Not(HasSubstr("said: no exception"))));
      }
      named += says;
    }
    if (lists.way != "equal") {
      EXPECT_GE(named, 1);
    }
  }
}

}  // namespace
}  // namespace lockstep::collectives
