// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "cli/base/outcome.h"
#include "cli/base/signals.h"
#include "cli/testing/tool.h"
#include "lockstep/coordination/client/client.h"
#include "lockstep/testing/process_logs.h"

// Tests of signals to `lockstep run`, and of what its parent leaves it: ignored signals, children.

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Processes;
using testing::ProcessResult;

void wait_for_both(Processes& job, const std::string& line) {
  for (const char* process : {"[0] ", "[1] "}) job.wait_for_line(0, process + line);
}

constexpr const char* kSaysWhatSignalsItGets =
    "for s in USR1 USR2; do trap \"echo got $s\" $s; done; trap 'echo got INT; exit 5' INT; echo ready; "
    "while :; do sleep 0.05; done";

TEST(RunSignals, Signals_ArePassedOnToAllProcesses) {
  Processes job(tool(Words{"run", "-n", "2"} + shell(kSaysWhatSignalsItGets)));
  for (const char* process : {"[0]", "[1]"}) job.wait_for_line(0, std::string(process) + " ready");
  const std::vector<std::pair<int, std::string>> signals = {{SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}};
  for (const auto& [signal, name] : signals) {
    job.kill(0, signal);
    for (const char* process : {"[0]", "[1]"})
      job.wait_for_line(0, std::string(process) + " got " + name + "\n");
  }
  job.kill(0, SIGINT);
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.log,
              AllOf(HasSubstr("[0] got INT\n"), HasSubstr("[1] got INT\n"),
                    HasSubstr("lockstep: stopped by SIGINT\n"), Not(HasSubstr("the job failed"))));
}

TEST(RunSignals, ASecondInterrupt_KillsTheProcesses) {
  Processes job(tool(Words{"run", "-n", "2"} +
                     shell("trap 'echo ignored' INT; echo ready; while :; do sleep 0.05; done")));
  wait_for_both(job, "ready");
  job.kill(0, SIGINT);
  wait_for_both(job, "ignored");
  std::this_thread::sleep_for(kOneRequest);
  job.kill(0, SIGINT);
  EXPECT_EQ(job.wait(0).exit_code, 128 + SIGINT);
}

// `timeout` signals its child and then its group; service managers do the same.
TEST(RunSignals, TwoStopSignalsWithinASecond_AreOneRequest) {
  for (const int second : {SIGTERM, SIGINT}) {
    Processes job(
        tool(Words{"run", "-n", "2"} + shell("trap 'sleep 0.4; echo saved; exit 5' TERM INT; echo ready; "
                                             "while :; do sleep 0.02; done")));
    wait_for_both(job, "ready");
    job.kill(0, SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    job.kill(0, second);
    const ProcessResult result = job.wait(0);
    EXPECT_EQ(result.exit_code, 5);
    EXPECT_THAT(result.log, AllOf(HasSubstr("[0] saved\n"), HasSubstr("[1] saved\n")));
  }
}

TEST(RunSignals, RepeatedHangups_ReachAProcessOnceASecond) {
  Processes job(
      tool(Words{"run", "-n", "1"} + shell("trap 'echo got HUP' HUP; trap 'exit 5' TERM; echo ready; "
                                           "while :; do sleep 0.02; done")));
  job.wait_for_line(0, "[0] ready");
  const auto hang_up_often = [&] {
    job.kill(0, SIGHUP);
    std::this_thread::sleep_for(std::chrono::milliseconds(kOneRequest) / 5);
    return job.log(0);
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::ranges::count(lines_of(hang_up_often()), "[0] got HUP") < 2) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  job.kill(0, SIGTERM);
  EXPECT_EQ(job.wait(0).exit_code, 5);
}

TEST(RunSignals, TwoHangupsWithinASecond_ReachAProcessOnce) {
  Processes job(
      tool(Words{"run", "-n", "1"} + shell("trap 'echo got HUP' HUP; trap 'exit 5' TERM; echo ready; "
                                           "while :; do sleep 0.02; done")));
  job.wait_for_line(0, "[0] ready");
  job.kill(0, SIGHUP);
  job.wait_for_line(0, "[0] got HUP\n");
  job.kill(0, SIGHUP);
  job.kill(0, SIGTERM);
  EXPECT_THAT(lines_of(job.wait(0).log), ::testing::Contains("[0] got HUP").Times(1));
}

TEST(RunSignals, NoProcessOutlivesAKilledLauncher) {
  Processes job(tool(Words{"run", "-n", "2"} + shell("echo pid $$; exec sleep 1000")));
  job.wait_for_line(0, "[0] pid ");
  job.wait_for_line(0, "[1] pid ");
  const pid_t first = number_after(job.log(0), "[0] pid "), second = number_after(job.log(0), "[1] pid ");
  ASSERT_TRUE(alive(first) && alive(second));
  job.kill(0, SIGKILL);
  EXPECT_EQ(job.wait(0).signal, SIGKILL);
  expect_gone(first);
  expect_gone(second);
}

TEST(RunSignals, AfterAStopSignal_EachProcessTakesAsLongAsItNeeds) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    Processes job(tool(Words{"run", "-n", "2", "--grace", "0.1"} +
                       shell("trap 'sleep 0.$((LOCKSTEP_PROCESS_ID * 6)); echo saved; exit 7' TERM INT HUP; "
                             "echo ready; while :; do sleep 0.02; done")));
    wait_for_both(job, "ready");
    job.kill(0, signal);
    const ProcessResult result = job.wait(0);
    EXPECT_EQ(result.exit_code, 7);
    EXPECT_THAT(result.log, AllOf(HasSubstr("[0] saved\n"), HasSubstr("[1] saved\n"),
                                  HasSubstr("lockstep: stopped by " + signal_name(signal) + "\n")));
  }
}

volatile std::sig_atomic_t asked_to_end = 0;

LOCKSTEP_CHILD(saves_and_ends_when_asked) {
  auto client = join();
  signal(SIGTERM, [](int) { asked_to_end = 1; });
  testing::say("ready");
  while (asked_to_end == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  // The first ends at once, without shutdown().
  if (client->process_id() == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
  testing::say("saved");
  std::_Exit(0);
}

TEST(RunSignals, AfterAStopSignal_LeavingWithoutShutdownDoesNotEndTheOthers) {
  Processes job(tool(Words{"run", "-n", "2", "--grace", "0.1", "--"} +
                     testing::command_of_child("saves_and_ends_when_asked")));
  wait_for_both(job, "ready");
  job.kill(0, SIGTERM);
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, AllOf(HasSubstr("[0] saved\n"), HasSubstr("[1] saved\n")));
}

TEST(RunSignals, AHangup_EndsTheJobWithoutARestart) {
  Processes job(tool(Words{"run", "-n", "2", "--max-restarts", "3"} + shell("echo ready; exec sleep 1000")));
  wait_for_both(job, "ready");
  job.kill(0, SIGHUP);
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 128 + SIGHUP);
  EXPECT_THAT(result.log, AllOf(HasSubstr("lockstep: stopped by SIGHUP\n"), Not(HasSubstr("restart"))));
}

// As a terminal that is closed may send it twice, and systemd sends it behind TERM.
TEST(RunSignals, AHangupBesideAStopSignal_DoesNotKill) {
  Processes job(
      tool(Words{"run", "-n", "2"} +
           shell("trap 'echo got HUP' HUP; trap 'echo got TERM; sleep 0.3; echo saved; exit 5' TERM; "
                 "echo ready; while :; do sleep 0.02; done")));
  wait_for_both(job, "ready");
  job.kill(0, SIGHUP);
  wait_for_both(job, "got HUP");
  job.kill(0, SIGTERM);
  wait_for_both(job, "got TERM");
  job.kill(0, SIGHUP);
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.log, AllOf(HasSubstr("[0] saved\n"), HasSubstr("[1] saved\n")));
}

// `env` in the place of a parent that leaves a signal ignored.
testing::ProcessesOptions ignoring(const std::string& signal, const Words& arguments) {
  return {.program = "/usr/bin/env",
          .arguments = Words{"--ignore-signal=" + signal, LOCKSTEP_TOOL} + arguments};
}

TEST(RunSignals, UnderNohup_AHangupDoesNothing) {
  Processes job(ignoring(
      "HUP", Words{"run", "-n", "2"} + shell("trap 'echo got USR1' USR1; echo pid $$; "
                                             "while [ ! -e go ]; do sleep 0.02; done; echo survived")));
  wait_for_both(job, "pid ");
  job.kill(0, SIGHUP);
  kill(number_after(job.log(0), "[1] pid "), SIGHUP);  // the processes ignore it as the launcher does
  job.kill(0, SIGUSR1);
  wait_for_both(job, "got USR1");
  std::ofstream(job.folder(0) / "go") << "";
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, AllOf(HasSubstr("[0] survived\n"), HasSubstr("[1] survived\n")));
}

TEST(RunSignals, UnderNohup_AHangupDoesNothingToACoordinator) {
  Processes coordinator(ignoring("HUP", {"coordinator", "-n", "1"}));
  coordinator.wait_for_line(0, " at 127.0.0.1:");
  coordinator.kill(0, SIGHUP);
  coordinator.kill(0, SIGTERM);
  EXPECT_THAT(coordinator.wait(0).log, HasSubstr("stopped by Terminated before all had left"));
}

TEST(RunSignals, UnderAParentThatIgnoresSigchld_TheLauncherDoesNotHang) {
  const auto result = testing::run_processes(ignoring("CHLD", Words{"run", "-n", "2"} + shell("exit 3")))[0];
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_FALSE(result.timed_out);
}

// On a terminal process 0 is in the launcher's process group, for it reads from there.
TEST(RunSignals, OnATerminal_NothingOfProcessZeroOutlivesAKilledLauncher) {
  Processes job(
      {.program = "/usr/bin/script",
       .arguments = {
           "-qec",
           "trap '' HUP; " LOCKSTEP_TOOL
           " run -n 1 -- sh -c 'trap \"\" HUP; sleep 1000 & echo helper $!; echo launcher $PPID; wait'; true",
           "/dev/null"}});
  job.wait_for_line(0, "launcher ");
  job.wait_for_line(0, "\n");
  const pid_t helper = number_after(job.log(0), "helper ");
  ASSERT_TRUE(alive(helper));
  kill(number_after(job.log(0), "launcher "), SIGKILL);
  expect_gone(helper);
}

TEST(RunSignals, ChildrenFromBeforeExec_AreNotEnded) {
  Processes job({.program = "/bin/bash",
                 .arguments = {"-c", "exec > >(cat > output); exec " LOCKSTEP_TOOL
                                     " run -n 2 --max-restarts 1 -- sh -c 'echo attempt $LOCKSTEP_ATTEMPT; "
                                     "[ $LOCKSTEP_ATTEMPT = 1 ]'"}});
  EXPECT_EQ(job.wait(0).exit_code, 0);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const auto output = [&] { return testing::read_file(job.folder(0) / "output"); };
  while (lines_of(output()).size() < 4 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_THAT(output(), AllOf(HasSubstr("[0] attempt 0\n"), HasSubstr("[0] attempt 1\n"),
                              HasSubstr("[1] attempt 1\n")));
}

}  // namespace
}  // namespace lockstep::cli
