// SPDX-License-Identifier: Apache-2.0
#include "lockstep/testing/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/testing/process_logs.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

constexpr auto kForever = std::chrono::hours(1);

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "(unset)" : value;
}

bool exists(pid_t pid) { return ::kill(pid, 0) == 0; }

LOCKSTEP_CHILD(introduces_itself) {
  say(std::to_string(child_index()) + " of " + std::to_string(child_count()) + " " + child_arguments().at(0) +
      " " + variable("A") + " " + variable("B") + " " + variable("LOCKSTEP_TESTING_CHILD"));
  std::fprintf(stderr, "to standard error\n");
}

TEST(RunProcesses, EachProcess_HasItsPlaceArgumentsVariablesAndLog) {
  const auto results = run_processes({.count = 3,
                                      .child = "introduces_itself",
                                      .arguments = {"hello"},
                                      .env = {{"A", "a"}, {"B", "b"}},
                                      .env_of = [](int i) {
                                        return Variables{{"B", std::to_string(10 * i)}};
                                      }});
  ASSERT_EQ(results.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(results[i].exit_code, 0);
    EXPECT_THAT(results[i].log,
                HasSubstr(std::to_string(i) + " of 3 hello a " + std::to_string(10 * i) + " (unset)\n"));
    EXPECT_THAT(results[i].log, HasSubstr("to standard error\n"));
  }
}

LOCKSTEP_CHILD(prints_its_place_in_the_job) {
  say(variable("LOCKSTEP_PROCESS_ID") + " " + variable("SLURM_PROCID") + " " +
      variable("LOCKSTEP_PJRT_PLUGIN"));
}

TEST(RunProcesses, VariablesOfAnotherJob_AreNotInherited) {
  setenv("LOCKSTEP_PROCESS_ID", "7", 1);
  setenv("SLURM_PROCID", "8", 1);
  const std::string plugin = variable("LOCKSTEP_PJRT_PLUGIN");
  setenv("LOCKSTEP_PJRT_PLUGIN", "/plugin", 1);
  const auto results = run_processes({.child = "prints_its_place_in_the_job"});
  unsetenv("LOCKSTEP_PROCESS_ID");
  unsetenv("SLURM_PROCID");
  plugin == "(unset)" ? unsetenv("LOCKSTEP_PJRT_PLUGIN") : setenv("LOCKSTEP_PJRT_PLUGIN", plugin.c_str(), 1);
  EXPECT_EQ(results[0].log, "(unset) (unset) /plugin\n");
}

LOCKSTEP_CHILD(fails_an_expectation) { EXPECT_EQ(1, 2); }
LOCKSTEP_CHILD(throws) { throw std::runtime_error("what a pity"); }
LOCKSTEP_CHILD(exits_with_42) { std::exit(42); }
LOCKSTEP_CHILD(aborts) { std::abort(); }

TEST(RunProcesses, Results_HaveExitCodesSignalsAndLogs) {
  EXPECT_EQ(run_processes({.child = "fails_an_expectation"})[0].exit_code, 1);
  const auto threw = run_processes({.child = "throws"})[0];
  EXPECT_EQ(threw.exit_code, 2);
  EXPECT_THAT(threw.log, HasSubstr("what a pity"));
  EXPECT_EQ(run_processes({.child = "exits_with_42"})[0].exit_code, 42);
  const auto aborted = run_processes({.child = "aborts"})[0];
  EXPECT_EQ(aborted.exit_code, -1);
  EXPECT_EQ(aborted.signal, SIGABRT);
  EXPECT_THAT(run_processes({.child = "is_not_there"})[0].log, HasSubstr("no LOCKSTEP_CHILD(is_not_there)"));
}

TEST(RunProcesses, AProgramInsteadOfAChild_IsRun) {
  const auto result =
      run_processes({.program = "/bin/sh", .arguments = {"-c", "echo $A; exit 3"}, .env = {{"A", "x"}}});
  EXPECT_EQ(result[0].exit_code, 3);
  EXPECT_EQ(result[0].log, "x\n");
  EXPECT_EQ(run_processes({.program = "/no/such/program"})[0].exit_code, 127);
}

TEST(CommandOfChild, RunsTheChildFromAnotherProgram) {
  std::vector<std::string> arguments = {"-c", "\"$@\" && echo done", "sh"};
  for (const std::string& word : command_of_child("introduces_itself", {"hello"})) arguments.push_back(word);
  const auto result = run_processes({.program = "/bin/sh", .arguments = arguments});
  EXPECT_THAT(result[0].log, HasSubstr("0 of 1 hello (unset) (unset) (unset)\n"));
  EXPECT_THAT(result[0].log, HasSubstr("done\n"));
}

LOCKSTEP_CHILD(makes_a_file) {
  EXPECT_TRUE(std::filesystem::is_empty("."));
  std::ofstream("ready") << "yes";
  say("ready");
  std::this_thread::sleep_for(kForever);
}

TEST(Processes, CanBeWaitedForAndKilled) {
  Processes processes({.count = 2, .child = "makes_a_file"});
  processes.wait_for_file(0, "ready");
  processes.wait_for_line(1, "ready");
  EXPECT_NE(processes.folder(0), processes.folder(1));
  EXPECT_TRUE(processes.running(0));
  processes.kill(0, SIGKILL);
  EXPECT_EQ(processes.wait(0).signal, SIGKILL);
  EXPECT_FALSE(processes.wait(0).timed_out);
  EXPECT_TRUE(processes.running(1));
  processes.kill(1, SIGSTOP);
  processes.kill(1, SIGTERM);
  processes.kill(1, SIGCONT);
  EXPECT_EQ(processes.wait()[1].signal, SIGTERM);
}

TEST(Processes, AreEndedByTheDestructor) {
  pid_t pid = 0;
  {
    Processes processes({.child = "makes_a_file"});
    processes.wait_for_line(0, "ready");
    pid = processes.pid(0);
    EXPECT_TRUE(exists(pid));
  }
  EXPECT_FALSE(exists(pid));
}

TEST(Processes, WaitingForALineThatNeverComes_Throws) {
  Processes processes({.child = "exits_with_42"});
  try {
    processes.wait_for_line(0, "ready");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "[testing] process 0 of 1 'exits_with_42' ended with status 42 and did not print 'ready'");
  }
}

LOCKSTEP_CHILD(first_ends_others_stay) {
  if (child_index() != 0) std::this_thread::sleep_for(kForever);
}

TEST(Processes, StillRunningAtTheDeadline_AreNamedAndKilled) {
  std::vector<ProcessResult> results;
  EXPECT_NONFATAL_FAILURE(
      results = run_processes(
          {.count = 3, .child = "first_ends_others_stay", .deadline = std::chrono::milliseconds(1500)}),
      "these were still there and are killed: 1, 2");
  EXPECT_FALSE(results[0].timed_out);
  EXPECT_EQ(results[0].exit_code, 0);
  EXPECT_TRUE(results[1].timed_out);
  EXPECT_EQ(results[2].signal, SIGKILL);
}

LOCKSTEP_CHILD(starts_a_grandchild) {
  Processes processes({.child = "makes_a_file"});
  processes.wait_for_line(0, "ready");
  say("grandchild " + std::to_string(processes.pid(0)) + " is ready");
  std::this_thread::sleep_for(kForever);
}

TEST(Processes, StartedByAKilledProcess_AreKilled) {
  Processes processes({.child = "starts_a_grandchild"});
  processes.wait_for_line(0, "is ready");
  const std::string log = processes.log(0);
  const pid_t grandchild = std::atoi(log.c_str() + log.find("grandchild ") + 11);
  ASSERT_TRUE(exists(grandchild));
  processes.kill(0, SIGKILL);
  processes.wait(0);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  // It may stay a zombie where nobody reaps orphans, so it is its state that tells.
  auto alive = [&] {
    const std::string stat = read_file("/proc/" + std::to_string(grandchild) + "/stat");
    return !stat.empty() && stat.find(") Z ") == std::string::npos;
  };
  while (alive() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_FALSE(alive());
}

class FailsAfterRunningAProcess : public ::testing::Test {
  void TestBody() override {
    run_processes({.program = "/bin/echo", .arguments = {"hello from the process"}});
    ADD_FAILURE() << "on purpose";
  }
};

LOCKSTEP_CHILD(runs_a_test_that_fails) {
  ::testing::RegisterTest("Registered", "Fails", nullptr, nullptr, __FILE__, __LINE__,
                          [] { return new FailsAfterRunningAProcess; });
  GTEST_FLAG_SET(filter, "Registered.Fails");
  print_process_logs_of_failed_tests();
  std::exit(RUN_ALL_TESTS());
}

TEST(ProcessLogs, ArePrintedIfTheTestFails) {
  const auto result = run_processes({.child = "runs_a_test_that_fails"})[0];
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.log, HasSubstr("---- process 0 of 1 'echo'\nhello from the process\n"));
}

LOCKSTEP_CHILD(prints_its_coordinator) {
  say(variable("LOCKSTEP_COORDINATOR_ADDRESS") + " " + variable("LOCKSTEP_NUM_PROCESSES") + " " +
      variable("LOCKSTEP_PROCESS_ID"));
}

TEST(RunProcesses, WithACoordinator_ChildrenHaveItsAddress) {
  const auto results = run_processes({.count = 2, .child = "prints_its_coordinator", .coordinator = true});
  EXPECT_THAT(results[1].log, ::testing::MatchesRegex("127\\.0\\.0\\.1:[0-9]+ 2 1\n"));
}

}  // namespace
}  // namespace lockstep::testing
