// SPDX-License-Identifier: Apache-2.0
// Threads that launch programs with collectives over several processes.

#include <mutex>
#include <thread>

#include "lockstep/jit/pmap.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/test_jobs.h"
#include "lockstep/runtime/initialize.h"

namespace lockstep {
namespace {

using test::job;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProcessResult;
using testing::run_processes;
using testing::say;

constexpr int kRounds = 100;

/// A sum over these devices, to which each gives `base` and its number; whether it is right.
template <class Total>
bool sums_right(Total& total, const std::vector<Device>& devices, int base) {
  std::vector<float> given;
  float expected = 0;
  for (Device device : devices) {
    const auto value = static_cast<float>(base + device.id());
    expected += value;
    if (device.process_index() == process_index()) given.push_back(value);
  }
  const std::vector<float> sums = total(array(given, {std::ssize(given)})).template to_host<float>();
  return sums == std::vector<float>(given.size(), expected);
}

void in_two_threads(const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 2; ++thread) threads.emplace_back([&body, thread] { body(thread); });
}

LOCKSTEP_CHILD(launches_in_two_threads_at_once) {
  initialize();
  auto total = pmap([](Array x) { return psum(x, "i"); });
  in_two_threads([&](int thread) {
    int wrong = 0, round = 0;
    try {
      for (; round < 5000; ++round) wrong += !sums_right(total, devices(), 1000 * thread);
      say("nothing was thrown");
    } catch (const DivergenceError& error) {
      say(std::string("as expected: ") + error.what());
    }
    say(std::to_string(wrong) + " of " + std::to_string(round) + " sums were of other threads");
  });
  std::_Exit(0);
}

/// Before two launches meet on one process, the order may already have been another on each: nobody can tell
/// that from a hand-over. But the job does not go on with it.
TEST(ThreadsOfAJob, ThatLaunchAtOnce_AreAnErrorOnAllProcesses_ThatNamesBothPlaces) {
  for (int devices_each : {1, 2}) {
    for (const ProcessResult& result :
         run_processes(job("launches_in_two_threads_at_once", 2, devices_each))) {
      EXPECT_EQ(result.exit_code, 0);
      EXPECT_THAT(result.log,
                  AllOf(Not(HasSubstr("nothing was thrown")),
                        ContainsRegex("on process [01] of 2 one thread launched .*"
                                      "\\(at threads_processes_test.cc:[0-9]+\\) while another was in .*"
                                      "\\(at threads_processes_test.cc:[0-9]+\\)")));
    }
  }
}

LOCKSTEP_CHILD(launches_in_threads_one_after_the_other) {
  initialize();
  auto total = pmap([](Array x) { return psum(x, "i"); });
  EXPECT_TRUE(sums_right(total, devices(), 1));
  std::jthread([&] {
    for (int round = 0; round < kRounds; ++round) EXPECT_TRUE(sums_right(total, devices(), round));
  }).join();
  // Which thread comes next is another one on each process.
  std::mutex turn;
  int round = 0;
  {
    std::vector<std::jthread> pool;
    for (int thread = 0; thread < 3; ++thread) {
      pool.emplace_back([&] {
        for (;;) {
          std::lock_guard lock(turn);
          if (round == kRounds) return;
          EXPECT_TRUE(sums_right(total, devices(), ++round));
        }
      });
    }
  }
  EXPECT_TRUE(sums_right(total, devices(), 2));
}

TEST(ThreadsOfAJob, ThatLaunchOneAfterTheOther_Succeed) {
  for (const ProcessResult& result : run_processes(job("launches_in_threads_one_after_the_other", 2, 1)))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

/// Four devices of each process; a thread has half of them.
LOCKSTEP_CHILD(launches_on_devices_of_its_own_in_each_thread) {
  initialize();
  in_two_threads([&](int thread) {
    std::vector<Device> own;
    for (Device device : devices())
      if (device.local_hardware_id() / 2 == thread) own.push_back(device);
    auto total = pmap([](Array x) { return psum(x, "i"); }, {.devices = own});
    for (int round = 0; round < kRounds; ++round) EXPECT_TRUE(sums_right(total, own, 1000 * thread + round));
  });
}

TEST(ThreadsOfAJob, WithDevicesOfTheirOwn_LaunchAtOnce) {
  for (const ProcessResult& result :
       run_processes(job("launches_on_devices_of_its_own_in_each_thread", 2, 4)))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

/// Sums within each process, from one thread, and over all, from the other.
LOCKSTEP_CHILD(launches_local_sums_beside_sums_over_all) {
  initialize();
  auto total = pmap([](Array x) { return psum(x, "i"); });
  auto local_total = pmap([](Array x) { return psum(x, "i"); }, {.devices = local_devices()});
  in_two_threads([&](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      EXPECT_TRUE(thread == 0 ? sums_right(total, devices(), round)
                              : sums_right(local_total, local_devices(), round));
    }
  });
}

TEST(ThreadsOfAJob, WithLocalSums_WaitForSumsOverAllProcesses) {
  for (const ProcessResult& result : run_processes(job("launches_local_sums_beside_sums_over_all", 2, 2)))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

}  // namespace
}  // namespace lockstep
