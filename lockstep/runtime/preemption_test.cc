// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/preemption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/random.h"

namespace lockstep {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::Processes;
using testing::run_processes;
using testing::say;

/// The text after "stops at " in a log.
std::string stop_of(const std::string& log) {
  const auto begin = log.find("stops at ");
  return begin == log.npos ? "nowhere" : testing::first_line(log.substr(begin + 9));
}

/// The processes have no collective, and are not equally fast: they are at different steps.
LOCKSTEP_CHILD(steps_until_preempted) {
  initialize();
  for (int step = 0;; ++step) {
    if (preemption_point(step)) {
      say("stops at " + std::to_string(step));
      EXPECT_TRUE(preemption_point(step + 1));
      // One key that all wait for, not one that each sets for each.
      EXPECT_TRUE(runtime::Runtime::existing()->store()->get_directory("lockstep/preemption/notice").empty());
      return;
    }
    if (step == 3) say("stepping");
    std::this_thread::sleep_for(microseconds(500 + 700 * process_index()));
  }
}

TEST(PreemptionPoint, IsTrueAtTheSameStepOfAll_WhicheverGetsTheSignal) {
  testing::Random random;
  for (int round = 0; round < 5; ++round) {
    Processes processes({.count = 4, .child = "steps_until_preempted", .coordinator = true});
    for (int i = 0; i < 4; ++i) processes.wait_for_line(i, "stepping");
    std::this_thread::sleep_for(random.within(milliseconds(50)));
    const int whom = random.below(4);
    processes.kill(whom, SIGTERM);
    if (round % 2 == 1) processes.kill((whom + 1) % 4, SIGTERM);
    std::set<std::string> stops;
    for (const auto& result : processes.wait()) {
      EXPECT_EQ(result.exit_code, 0) << result.log;
      stops.insert(stop_of(result.log));
    }
    EXPECT_EQ(stops.size(), 1u) << ::testing::PrintToString(stops);
    EXPECT_EQ(stops.count("nowhere"), 0u);
  }
}

LOCKSTEP_CHILD(is_late) {
  initialize();
  if (process_index() == 1) {
    say("has not begun");
    std::this_thread::sleep_for(milliseconds(700));
  }
  for (int step = 0; step < 100'000; ++step) {
    if (preemption_point(step)) {
      say("stops at " + std::to_string(step));
      break;
    }
    if (step == 3) say("stepping");
    std::this_thread::sleep_for(milliseconds(1));
  }
}

TEST(PreemptionPoint, WaitsForAProcessThatHasNotBegun) {
  Processes processes({.count = 2, .child = "is_late", .coordinator = true});
  processes.wait_for_line(1, "has not begun");
  processes.wait_for_line(0, "stepping");
  processes.kill(0, SIGTERM);
  const auto results = processes.wait();
  EXPECT_EQ(results[0].exit_code, 0) << results[0].log;
  EXPECT_EQ(stop_of(results[0].log), stop_of(results[1].log));
  EXPECT_NE(stop_of(results[0].log), "nowhere");
}

/// One process is in its last step when the others have ended their loop, and are in shutdown().
LOCKSTEP_CHILD(is_in_the_last_step) {
  initialize();
  const int late = std::stoi(testing::child_arguments().at(0));
  for (int step = 0; step < 3; ++step) {
    if (step == 2 && process_index() == late) {
      say("evaluates");
      while (!std::filesystem::exists("go")) std::this_thread::sleep_for(milliseconds(2));
    }
    EXPECT_FALSE(preemption_point(step));
  }
  say("saves");
  shutdown();
}

TEST(PreemptionPoint, InTheLastStep_DoesNotWaitForProcessesInShutdown) {
  for (const int late : {0, 1}) {
    Processes processes({.count = 3,
                         .child = "is_in_the_last_step",
                         .arguments = {std::to_string(late)},
                         .coordinator = true});
    processes.wait_for_line(late, "evaluates");
    for (int i = 0; i < 3; ++i)
      if (i != late) processes.wait_for_line(i, "saves");
    std::this_thread::sleep_for(milliseconds(300));  // In shutdown() by now, most often.
    processes.kill(late, SIGTERM);
    if (late == 1) processes.kill(2, SIGTERM);
    std::ofstream(processes.folder(late) / "go") << "";
    for (const auto& result : processes.wait()) {
      EXPECT_EQ(result.exit_code, 0) << result.log;
      EXPECT_THAT(result.log, HasSubstr("saves"));
      EXPECT_LT(result.ended_after, std::chrono::seconds(30));
    }
  }
}

/// Process 0 leaves while it waits for the answer of process 1, which has not come to its first step.
LOCKSTEP_CHILD(leaves_while_it_asks) {
  initialize();
  if (process_index() == 0) {
    EXPECT_FALSE(preemption_point(0));
    runtime::Runtime::existing()->store()->set("lockstep/preemption/notice", "1");
    std::this_thread::sleep_for(milliseconds(200));
    runtime::stop_preemption_watch();
    say("leaves");
  } else {
    while (!std::filesystem::exists("go")) std::this_thread::sleep_for(milliseconds(2));
    EXPECT_FALSE(preemption_point(0));
  }
  shutdown();
}

TEST(PreemptionPoint, AProcessThatLeaves_DoesNotWaitForTheAgreement) {
  Processes processes({.count = 2, .child = "leaves_while_it_asks", .coordinator = true});
  processes.wait_for_line(0, "leaves");
  std::ofstream(processes.folder(1) / "go") << "";
  for (const auto& result : processes.wait()) EXPECT_EQ(result.exit_code, 0) << result.log;
}

/// A handler may not take memory, so it writes as it is.
void handler_of_before(int) {
  constexpr char kText[] = "the handler of before\n";
  [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, kText, sizeof kText - 1);
}

LOCKSTEP_CHILD(chooses_the_signal) {
  std::signal(SIGUSR1, handler_of_before);
  watch_for_preemption(SIGUSR1);
  EXPECT_FALSE(preemption_point(0));
  raise(SIGUSR1);
  EXPECT_TRUE(preemption_point(1));
  EXPECT_TRUE(preemption_point(2));
  raise(SIGTERM);
}

TEST(PreemptionPoint, InAJobOfOneProcess_UsesTheChosenSignal) {
  const auto result = run_processes({.child = "chooses_the_signal"})[0];
  EXPECT_EQ(result.signal, SIGTERM) << result.log;
  EXPECT_EQ(result.log, "the handler of before\n");
}

LOCKSTEP_CHILD(is_never_preempted) {
  initialize();
  for (int step = 0; step < 10; ++step) EXPECT_FALSE(preemption_point(step));
  if (testing::child_arguments().at(0) == "dies" && process_index() == 1) {
    std::this_thread::sleep_for(milliseconds(500));  // So that the other knows it.
    std::_Exit(0);
  }
  if (testing::child_arguments().at(0) == "dies") {
    say("said: " + testing::error_of<PeerFailure>([] {
          for (int step = 10;; ++step) preemption_point(step);
        }));
  }
}

TEST(PreemptionPoint, WithoutASignal_DoesNotDelayTheEnd) {
  for (const auto& result :
       run_processes({.count = 3, .child = "is_never_preempted", .arguments = {"no"}, .coordinator = true})) {
    EXPECT_EQ(result.exit_code, 0) << result.log;
    EXPECT_LT(result.ended_after, std::chrono::seconds(20));
  }
}

TEST(PreemptionPoint, AfterAPeersFailure_ThrowsIt) {
  const auto results =
      run_processes({.count = 2, .child = "is_never_preempted", .arguments = {"dies"}, .coordinator = true});
  EXPECT_THAT(results[0].log, HasSubstr("said: process 1 (host "));
}

TEST(WatchForPreemption, ASignalThatCannotBeCaught_IsAnError) {
  EXPECT_THAT(testing::error_of<Error>([] { watch_for_preemption(SIGKILL); }), HasSubstr("cannot be caught"));
}

}  // namespace
}  // namespace lockstep
