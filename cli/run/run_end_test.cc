// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include "cli/testing/tool.h"
#include "lockstep/testing/process_logs.h"
#include "lockstep/testing/temporary_folder.h"

// How jobs of `lockstep run` end, are started again, and what is left of them: nothing.

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Processes;
using testing::ProcessResult;
using ::testing::UnorderedElementsAre;

TEST(RunAgain, AFailedJob_IsStartedAgainUntilItSucceeds) {
  const auto result =
      lockstep(Words{"run", "-n", "2", "--max-restarts", "5", "--log-dir", "logs"} +
               shell("echo $LOCKSTEP_ATTEMPT $LOCKSTEP_JOB_ID; [ $LOCKSTEP_ATTEMPT = 2 ] || exit 3"));
  EXPECT_EQ(result.exit_code, 0);
  for (const char* line : {"[0] 0 ", "[1] 0 ", "[0] 1 ", "[1] 1 ", "[0] 2 ", "[1] 2 "}) {
    EXPECT_THAT(result.log, HasSubstr(line));
  }
  EXPECT_THAT(result.log, AllOf(HasSubstr("died: exit status 3; starting all again: restart 1 of 5\n"),
                                HasSubstr("restart 2 of 5\n"), Not(HasSubstr("the job failed"))));
}

TEST(RunAgain, TheLastAttempt_GivesTheStatus) {
  const auto result =
      lockstep(Words{"run", "-n", "1", "--max-restarts", "2"} + shell("exit $((LOCKSTEP_ATTEMPT + 10))"));
  EXPECT_EQ(result.exit_code, 12);
  EXPECT_THAT(result.log, HasSubstr("the job failed: process 0 (host "));
}

TEST(RunAgain, EachAttempt_HasItsOwnCoordinatorAndLogs) {
  Processes job(tool(Words{"run", "-n", "1", "--max-restarts", "1", "--log-dir", "logs"} +
                     shell("echo $LOCKSTEP_JOB_ID $LOCKSTEP_COORDINATOR_ADDRESS; exit 3")));
  job.wait(0);
  const std::string first = testing::read_file(job.folder(0) / "logs/process-0.log");
  const std::string second = testing::read_file(job.folder(0) / "logs/process-0.attempt-1.log");
  EXPECT_EQ(first.substr(0, 16), second.substr(0, 16));
  EXPECT_FALSE(second.empty());
}

TEST(RunAgain, AfterASignalOrWithoutTheProgram_DoesNotRestart) {
  Processes job(tool(Words{"run", "-n", "2", "--max-restarts", "3"} +
                     shell("echo ready $LOCKSTEP_ATTEMPT; exec sleep 1000")));
  for (const char* process : {"[0]", "[1]"}) job.wait_for_line(0, std::string(process) + " ready 0");
  job.kill(0, SIGTERM);
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  EXPECT_THAT(result.log, AllOf(Not(HasSubstr("restart")), Not(HasSubstr("ready 1"))));
  EXPECT_EQ(lockstep({"run", "-n", "2", "--max-restarts", "3", "--", "/no/such/program"}).exit_code, 127);
}

LOCKSTEP_CHILD(joins_and_dies_once) {
  auto client = join();
  client->barrier("all", std::chrono::minutes(10));
  if (std::string(std::getenv("LOCKSTEP_ATTEMPT")) == "0") {
    if (client->process_id() == 1) raise(SIGKILL);
    wait_in_vain(*client);
  }
  client->shutdown();
}

TEST(RunAgain, ProcessesOfTheNextAttempt_MeetEachOther) {
  const auto result = lockstep(Words{"run", "-n", "3", "--max-restarts", "1", "--"} +
                               testing::command_of_child("joins_and_dies_once"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, HasSubstr("died: signal 9 (SIGKILL); starting all again: restart 1 of 1"));
}

// As many starts and stops of coordinator and processes in one launcher; the children tell what it holds.
TEST(RunAgain, ManyStarts_LeaveNoDescriptorThreadOrProcess) {
  auto options = tool(
      Words{"run", "-n", "2", "--no-bind", "--max-restarts", "200", "--restart-delay", "0"} +
      shell("if [ $LOCKSTEP_PROCESS_ID = 0 ]; then case $LOCKSTEP_ATTEMPT in 5|200) set -- /proc/$PPID/fd/*; "
            "fds=$#; echo at $LOCKSTEP_ATTEMPT: $fds $(ls /proc/$PPID/task | wc -l);; esac; fi; exit 3"));
  options.deadline = std::chrono::minutes(4);
  const ProcessResult result = testing::run_processes(options)[0];
  EXPECT_EQ(result.exit_code, 3);
  const std::size_t early = result.log.find("at 5: "), late = result.log.find("at 200: ");
  ASSERT_NE(early, std::string::npos);
  ASSERT_NE(late, std::string::npos);
  auto rest = [&](std::size_t at) {
    return std::istringstream(result.log.substr(result.log.find(": ", at) + 2));
  };
  int early_fds = 0, early_threads = 0, late_fds = 0, late_threads = 0;
  rest(early) >> early_fds >> early_threads;
  rest(late) >> late_fds >> late_threads;
  EXPECT_GT(early_fds, 3);
  // gRPC's pools of threads, each with a descriptor or two, breathe a little.
  EXPECT_LE(late_fds, early_fds + 8);
  EXPECT_LE(late_threads, early_threads + 8);
}

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

// Whether somebody listens there, as the kernel lists it.
bool listening(int port) {
  char local[32];
  std::snprintf(local, sizeof(local), ":%04X 00000000:0000 0A", port);
  return testing::read_file("/proc/net/tcp").find(local) != std::string::npos;
}

TEST(RunEnds, AFailingJob_LeavesNoProcessPortOrFile) {
  testing::TemporaryFolder temporary;
  // Each with a helper in its group, and one that has left it.
  const std::string script =
      "sleep 1000 & setsid sleep 1000 & echo $LOCKSTEP_JOB_ID $LOCKSTEP_COORDINATOR_ADDRESS; "
      "if [ $LOCKSTEP_PROCESS_ID = 1 ]; then sleep 0.2; kill -9 $$; fi; exec sleep 1000";
  const auto result =
      lockstep(Words{"run", "-n", "3", "--grace", "0.4"} + shell(script),
               {{"TMPDIR", temporary.path().string()}, {"RUN_ENDS_TEST", std::to_string(getpid())}});
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
  const std::string job = result.log.substr(result.log.find("] ") + 2, 16);
  const int port = std::atoi(result.log.c_str() + result.log.find("127.0.0.1:") + 10);
  EXPECT_GT(port, 0);
  EXPECT_TRUE(processes_with("LOCKSTEP_JOB_ID=" + job).empty());
  EXPECT_TRUE(processes_with("RUN_ENDS_TEST=" + std::to_string(getpid())).empty());
  EXPECT_FALSE(listening(port));
  EXPECT_TRUE(names_in(temporary.path()).empty());
}

TEST(RunEnds, HelpersThatKeepTheOutputOpen_DoNotKeepTheJobRunning) {
  Processes job(
      tool(Words{"run", "-n", "2"} + shell("yes > /dev/null & (while :; do echo helper; sleep 0.01; done) & "
                                           "echo pid $!; exit 0")));
  EXPECT_EQ(job.wait(0).exit_code, 0);
  expect_gone(number_after(job.log(0), "[0] pid "));
  expect_gone(number_after(job.log(0), "[1] pid "));
}

TEST(RunEnds, AfterAKilledLauncher_HelpersOfItsProcessesEndToo) {
  Processes job(tool(Words{"run", "-n", "2"} + shell("sleep 1000 & echo helper $!; echo pid $$; wait")));
  for (const char* process : {"[0]", "[1]"}) job.wait_for_line(0, std::string(process) + " pid ");
  job.kill(0, SIGKILL);
  job.wait(0);
  for (const char* what : {"[0] pid ", "[1] pid ", "[0] helper ", "[1] helper "}) {
    expect_gone(number_after(job.log(0), what));
  }
}

LOCKSTEP_CHILD(finds_its_own_job) {
  auto client = join();
  client->barrier("all", std::chrono::minutes(10));
  const std::string job = std::getenv("LOCKSTEP_JOB_ID");
  if (client->process_id() == 0) client->key_value_store().set("job", job);
  if (client->key_value_store().get("job", std::chrono::minutes(10)) != job) std::_Exit(9);
  client->shutdown();
}

TEST(RunEnds, AHundredJobsAtOnce_DoNotCollide) {
  constexpr int kJobs = 100;
  auto options =
      tool(Words{"run", "-n", "2", "--no-bind", "--"} + testing::command_of_child("finds_its_own_job"));
  options.count = kJobs;
  options.deadline = std::chrono::minutes(4);
  int failed = 0;
  for (const ProcessResult& result : testing::run_processes(options)) failed += result.exit_code != 0;
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace lockstep::cli
