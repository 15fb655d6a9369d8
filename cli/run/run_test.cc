// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "cli/children/core_shares.h"
#include "cli/hosts/job_variables.h"
#include "cli/testing/tool.h"
#include "lockstep/base/cores.h"
#include "lockstep/base/cpu_quota.h"
#include "lockstep/base/error.h"
#include "lockstep/coordination/client/client.h"
#include "lockstep/testing/process_logs.h"
#include "lockstep/testing/processes.h"

// `lockstep run` with real processes.

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Processes;
using testing::ProcessesOptions;
using testing::ProcessResult;
using ::testing::UnorderedElementsAre;

TEST(Run, EachLine_BeginsWithItsProcess) {
  const auto result = lockstep(Words{"run", "-n", "3"} + shell("echo out; echo err >&2; printf rest"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(lines_of(result.log),
              UnorderedElementsAre("[0] out", "[0] err", "[0] rest", "[1] out", "[1] err", "[1] rest",
                                   "[2] out", "[2] err", "[2] rest"));
}

TEST(Run, LinesAreNeverTorn) {
  const auto result = lockstep(Words{"run", "-n", "4"} +
                               shell("i=0; while [ $i -lt 500 ]; do printf 'abc'; printf 'def %s\\n' $i; "
                                     "i=$((i+1)); done"));
  const auto lines = lines_of(result.log);
  ASSERT_EQ(lines.size(), 2000u);
  std::map<std::string, int> next;
  for (const std::string& line : lines) {
    EXPECT_EQ(line.substr(3), " abcdef " + std::to_string(next[line.substr(0, 3)]++));
  }
}

TEST(Run, EachProcess_GetsItsPlaceInVariables) {
  const auto result =
      lockstep(Words{"run", "-n", "2", "--devices-per-process", "3", "--heartbeat-timeout", "7"} +
               shell("echo $LOCKSTEP_LAUNCHER,$LOCKSTEP_PROCESS_ID,$LOCKSTEP_NUM_PROCESSES,$LOCKSTEP_ATTEMPT,"
                     "$LOCKSTEP_NUM_CPU_DEVICES,$LOCKSTEP_HEARTBEAT_TIMEOUT,$LOCKSTEP_LOCAL_PROCESS_ID; echo "
                     "$LOCKSTEP_COORDINATOR_ADDRESS; "
                     "echo job $LOCKSTEP_JOB_ID:$LOCKSTEP_JOB_SECRET"));
  EXPECT_THAT(result.log, AllOf(HasSubstr("[0] 1,0,2,0,3,7,0\n"), HasSubstr("[1] 1,1,2,0,3,7,1\n")));
  std::map<std::string, std::set<std::string>> seen;
  for (const std::string& line : lines_of(result.log)) seen[line.substr(0, 3)].insert(line.substr(4));
  seen["[0]"].erase("1,0,2,0,3,7,0");
  seen["[1]"].erase("1,1,2,0,3,7,1");
  EXPECT_EQ(seen["[0]"], seen["[1]"]);
  EXPECT_THAT(*seen["[0]"].begin(), ::testing::StartsWith("127.0.0.1:"));
  EXPECT_THAT(*seen["[0]"].rbegin(), ::testing::MatchesRegex("job [0-9a-f]{16}:[0-9a-f]{32}"));
}

TEST(Run, AJobWithinAJob_DoesNotInheritTheVariablesOfAPlace) {
  const auto result =
      lockstep(Words{"run", "-n", "2"} +
               shell(LOCKSTEP_TOOL
                     " run -n 1 -- sh -c 'echo ${LOCKSTEP_LOCAL_PROCESS_ID-none} $LOCKSTEP_PROCESS_ID'"));
  EXPECT_THAT(result.log, AllOf(HasSubstr("[0] [0] none 0\n"), HasSubstr("[1] [0] none 0\n")));
}

TEST(Run, OptionsThatAreNotGiven_SetNoVariable) {
  const auto result =
      lockstep(Words{"run", "-n", "2"} +
               shell("echo ${LOCKSTEP_NUM_CPU_DEVICES-none} ${LOCKSTEP_HEARTBEAT_TIMEOUT-none}"));
  EXPECT_THAT(result.log, HasSubstr("[0] none none\n"));
}

TEST(Run, VariablesGivenByX_OverrideInheritedOnes) {
  const auto result = lockstep(
      Words{"run", "-n", "1", "-x", "LOCKSTEP_NUM_CPU_DEVICES=4"} + shell("echo $LOCKSTEP_NUM_CPU_DEVICES"),
      {{"LOCKSTEP_NUM_CPU_DEVICES", "2"}});
  EXPECT_THAT(result.log, HasSubstr("[0] 4\n"));
}

TEST(Run, AnEmptyInterface_IsIgnored) {
  EXPECT_EQ(lockstep({"run", "-n", "1", "--interface", "", "--", "true"}).exit_code, 0);
}

/// A job that binds no process hides the cores of the job around it.
TEST(Run, BoundProcesses_AreToldTheCoresOfAllProcessesOfTheHost) {
  const std::vector<int> cores = usable_cores();
  const Words script = shell("echo cores: $LOCKSTEP_HOST_CORES.");
  if (!share_cores(cores, 2).empty()) {
    EXPECT_THAT(lockstep(Words{"run", "-n", "2"} + script).log,
                HasSubstr("cores: " + name_cores(cores) + "."));
  }
  const auto unbound =
      lockstep(Words{"run", "-n", "2", "--no-bind"} + script, {{"LOCKSTEP_HOST_CORES", "0-99"}});
  EXPECT_THAT(unbound.log, HasSubstr("cores: ."));
}

TEST(Run, Cores_AreDividedAmongTheProcesses) {
  const std::vector<int> cores = usable_cores();
  const auto shares = share_cores(cores, 2);
  const std::string script = "echo $(awk '/Cpus_allowed:/ {print $2}' /proc/self/status) $NPROC";
  auto log = lockstep(Words{"run", "-n", "2", "--no-bind"} + shell(script)).log;
  const int threads = threads_per_process(static_cast<int>(cores.size()), 2, cpu_quota());
  auto after = [](const std::string& log, const std::string& process) {
    const std::size_t begin = log.find(process) + process.size();
    return log.substr(begin, log.find('\n', begin) - begin);
  };
  EXPECT_EQ(after(log, "[0] "), after(log, "[1] "));
  EXPECT_THAT(after(log, "[0] "), ::testing::EndsWith(" " + std::to_string(threads)));
  log = lockstep(Words{"run", "-n", "2"} + shell(script)).log;
  if (shares.empty() || shares[0] == shares[1]) {
    EXPECT_EQ(after(log, "[0] "), after(log, "[1] "));
  } else {
    EXPECT_NE(after(log, "[0] "), after(log, "[1] "));
    if (!cpu_quota()) {
      EXPECT_THAT(after(log, "[1] "), ::testing::EndsWith(" " + std::to_string(shares[1].size())));
    }
  }
  EXPECT_THAT(lockstep(Words{"run", "-n", "2"} + shell("echo $NPROC"), {{"NPROC", "17"}}).log,
              AllOf(HasSubstr("[0] 17\n"), HasSubstr("[1] 17\n")));
}

TEST(Run, StandardInput_GoesToProcessZero) {
  const auto result = testing::run_processes(
      {.program = "/bin/sh", .arguments = {"-c", "echo hello | " LOCKSTEP_TOOL " run -n 2 -- cat"}})[0];
  EXPECT_EQ(result.log, "[0] hello\n");
}

TEST(Run, OnATerminal_ProgressIsDrawnInPlace) {
  const auto result = testing::run_processes(
      {.program = "/usr/bin/script",
       .arguments = {"-qec",
                     LOCKSTEP_TOOL
                     " run -n 1 -- sh -c 'printf \"\\r10%%\"; sleep 0.2; printf \"\\r20%%\\n\"; "
                     "echo terminal $LOCKSTEP_TERMINAL'",
                     "/dev/null"},
       .env = {{"NO_COLOR", "1"}}})[0];
  EXPECT_THAT(result.log, AllOf(HasSubstr("[0] 10%\r\033[K[0] 20%\r\n"), HasSubstr("[0] terminal 1")));
}

TEST(Run, TheFirstFailure_GivesTheStatus_AndTheOthersAreEnded) {
  const auto result = lockstep(Words{"run", "-n", "4"} +
                               shell("if [ $LOCKSTEP_PROCESS_ID = 2 ]; then exit 7; fi; exec sleep 1000"));
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_THAT(result.log,
              AllOf(HasSubstr("the job failed: process 2 (host "), HasSubstr("died: exit status 7\n"),
                    HasSubstr("ended by the launcher: processes 0, 1, 3 by SIGTERM\n")));
}

TEST(Run, ASignal_GivesItsStatusAndIsNamed) {
  const auto result = lockstep(Words{"run", "-n", "2"} + shell("kill -9 $$"));
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
  EXPECT_THAT(result.log, HasSubstr("died: signal 9 (SIGKILL)"));
}

TEST(Run, AProcessThatIgnoresSigterm_IsKilledAfterTheGrace) {
  const auto result = lockstep(
      Words{"run", "-n", "2", "--grace", "0.4"} +
      shell("trap '' TERM; if [ $LOCKSTEP_PROCESS_ID = 0 ]; then exit 3; fi; while :; do sleep 0.1; done"));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.log, HasSubstr("ended by the launcher: process 1 by SIGKILL"));
}

TEST(Run, AProcessThatFinishes_DoesNotDisturbTheOthers) {
  const auto result =
      lockstep(Words{"run", "-n", "3"} +
               shell("if [ $LOCKSTEP_PROCESS_ID = 0 ]; then exit 0; fi; sleep 0.5; echo done"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(lines_of(result.log), UnorderedElementsAre("[1] done", "[2] done"));
}

// `ulimit` with these words, and then the launcher.
ProcessResult with_limit(const std::string& limit, const std::string& words) {
  return testing::run_processes(
      {.program = "/bin/bash",
       .arguments = {"-c", "ulimit " + limit + "; exec " LOCKSTEP_TOOL " run " + words}})[0];
}

TEST(RunDescriptors, TheSoftLimit_HoldsForTheProcesses_NotForTheLauncher) {
  const auto result = with_limit("-Sn 64", "-n 50 -- sh -c 'ulimit -Sn'");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(lines_of(result.log),
              AllOf(::testing::SizeIs(50), ::testing::Each(::testing::EndsWith("] 64"))));
}

TEST(RunDescriptors, MoreProcessesThanTheHardLimitAllows_AreStartedByAgents) {
  const auto result = with_limit("-n 128", "-n 100 -- sh -c 'echo $LOCKSTEP_LOCAL_PROCESS_ID $(ulimit -n)'");
  EXPECT_EQ(result.exit_code, 0);
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(result.log, HasSubstr("[" + std::to_string(i) + "] " + std::to_string(i) + " 128\n"));
  }
  EXPECT_THAT(result.log,
              HasSubstr("lockstep: the coordinator needs a descriptor for each process that calls "
                        "initialize(), 164 with its own, and the hard limit is 128"));
}

TEST(RunDescriptors, TooFewForAgents_IsAnErrorThatSaysHowManyAreNeeded) {
  const auto result = with_limit("-n 64", "-n 60 -- true");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.log,
              HasSubstr("cannot start 60 processes: that takes at least 84 descriptors, and the hard limit "
                        "is 64; raise it (ulimit -Hn)\n"));
  EXPECT_EQ(with_limit("-n 84", "-n 60 -- true").exit_code, 0);
}

// Shared memory counts as a file: a process that makes more than the limit gets SIGXFSZ.
TEST(RunFileSize, ALimitBelowARecordersSize_IsNamed_AndTheJobRuns) {
  const auto result =
      with_limit("-f 8000", "-n 2 -- sh -c 'ulimit -f; exec head -c 10000000 /dev/zero > file'");
  EXPECT_EQ(result.exit_code, 128 + SIGXFSZ);
  EXPECT_THAT(result.log,
              AllOf(HasSubstr("[0] 16000\n"), HasSubstr("[1] 16000\n"),
                    HasSubstr("lockstep: the processes' operations are missing from status, traces"),
                    HasSubstr("File too large (ulimit -f: 8000 KiB)\n"), HasSubstr("(SIGXFSZ)")));
}

TEST(RunFileSize, ALogThatReachesTheLimit_IsReported_AndTheJobRuns) {
  const auto result = with_limit(
      "-f 100", "-n 1 --log-dir . --show-output none -- sh -c 'head -c 200000 /dev/zero; echo; exit 3'");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.log,
              HasSubstr("process-0.log: File too large (ulimit -f: 100 KiB); from here on logs lack what"));
}

LOCKSTEP_CHILD(joins_and_leaves) {
  auto client = join();
  client->barrier("all", std::chrono::minutes(10));
  client->shutdown();
}

TEST(RunDescriptors, ProcessesOfSeveralAgentsOfOneHost_FormOneJob) {
  std::string words = "-n 24 --";
  for (const std::string& word : testing::command_of_child("joins_and_leaves")) words += " " + word;
  const auto result = with_limit("-n 96", words);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.log, "");
}

TEST(Run, LogDir_HoldsTheLogs_AndIsToldToTheProcesses) {
  Processes job(tool(Words{"run", "-n", "2", "--log-dir", "logs"} +
                     shell("echo $LOCKSTEP_PROCESS_ID; cd /; echo $LOCKSTEP_LOG_DIR")));
  EXPECT_EQ(job.wait(0).exit_code, 0);
  const auto logs = std::filesystem::canonical(job.folder(0)) / "logs";
  EXPECT_EQ(testing::read_file(logs / "process-1.log"), "1\n" + logs.string() + "\n");
}

TEST(Run, AProgramThatCannotBeRun_IsReportedInOneLine) {
  auto result = lockstep({"run", "-n", "2", "--", "/no/such/program"});
  EXPECT_EQ(result.exit_code, 127);
  EXPECT_EQ(result.log, "lockstep: cannot run '/no/such/program': No such file or directory\n");
  result = lockstep({"run", "-n", "2", "--", "/etc/passwd"});
  EXPECT_EQ(result.exit_code, 126);
  EXPECT_EQ(result.log, "lockstep: cannot run '/etc/passwd': Permission denied\n");
  EXPECT_EQ(lockstep({"run", "-n", "2", "--", "no-such-program-in-path"}).exit_code, 127);
}

TEST(Run, AUsageErrorIsOneLine) {
  const std::vector<std::pair<Words, std::string>> cases = {
      {{"run", "--", "true"}, "-n is required"},
      {{"run", "-n", "0", "--", "true"}, "0"},
      {{"run", "-n", "two", "--", "true"}, "two"},
      {{"run", "-n", "2"}, "no program given"},
      {{"run", "-n", "2", "--bogus", "--", "true"}, "--bogus"},
      {{"run", "-n", "2", "--grace", "-1", "--", "true"}, "--grace"},
      {{"run", "-n", "2", "--devices-per-process", "0", "--", "true"}, "--devices-per-process"},
      {{"run", "-n", "2", "--max-restarts", "-1", "--", "true"}, "--max-restarts"},
      {{"run", "-n", "2", "-x", "NO_SUCH_VARIABLE", "--", "true"}, "NO_SUCH_VARIABLE"},
      {{"run", "-n", "2", "--max-restarts", "3/1y", "--", "true"}, "such as 10/1h"},
      {{"run", "--hosts", "a:x", "--", "true"}, "'a:x'"},
      {{"run", "--hosts", "a:1", "-n", "2", "--", "true"}, "2 processes do not fit"},
      {{"run", "--hosts", "a:1", "--hostfile", "f", "--", "true"}, "--hostfile"},
      {{"run", "--hostfile", "/no/such/file", "--", "true"}, "/no/such/file: No such file"},
      {{"run", "--hostfile", "/proc", "--", "true"}, "the host file /proc: Is a directory"},
      {{"run", "--hosts", "a:1", "--rsh", "ssh 'x", "--", "true"}, "quote"},
      {{"run", "-n", "1", "--log-dir", "s3://bucket/logs", "--", "true"}, "--log-dir: \"s3://bucket/logs\""},
      {{"run", "-n", "1", "--log-dir", "gs://bucket", "--", "true"}, "--log-dir: \"gs://bucket\""},
      {{"run", "--hosts", "a:1", "--log-dir-on-hosts", "s3://bucket", "--", "true"}, "in an object store"},
      {{"run", "-n", "1", "--report-dir", "S3://bucket/r", "--", "true"}, "--report-dir: \"S3://bucket/r\""},
      {{"run", "-n", "1", "--trace", "gs://bucket/t", "--", "true"}, "--trace: \"gs://bucket/t\""},
      {{}, "subcommand"},
  };
  for (const auto& [arguments, expected] : cases) {
    const auto result = lockstep(arguments);
    EXPECT_EQ(result.exit_code, 2) << expected;
    EXPECT_EQ(lines_of(result.log).size(), 1u) << result.log;
    EXPECT_THAT(result.log, AllOf(HasSubstr(expected), HasSubstr("--help")));
  }
}

TEST(Tool, Help_NamesTheVariablesThatAProcessGets) {
  const std::string help = lockstep({"run", "--help"}).log;
  unsetenv("NPROC");
  for (const auto& [name, value] : on_host(process_variables(new_job(2), 0), 0, 2, 1)) {
    EXPECT_THAT(help, HasSubstr(name));
  }
}

TEST(Tool, SaysItsVersionAndHelp) {
  EXPECT_THAT(lockstep({"--version"}).log, ::testing::MatchesRegex("lockstep [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  const auto help = lockstep({"run", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.log,
              AllOf(HasSubstr("--devices-per-process"), HasSubstr("--no-bind"), HasSubstr("--grace")));
}

// Children that are members of the job, as the runtime makes a process one.

LOCKSTEP_CHILD(process_one_is_killed) {
  auto client = join();
  if (client->process_id() == 1) raise(SIGKILL);
  wait_in_vain(*client);
}

TEST(RunJob, AKilledProcessAndItsSignal_AreToldToTheOthers) {
  const auto result =
      lockstep(Words{"run", "-n", "3", "--"} + testing::command_of_child("process_one_is_killed"));
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
  EXPECT_THAT(result.log,
              ::testing::ContainsRegex("\\[0\\] heard: .*process 1 \\(host .*signal 9 \\(SIGKILL\\)"));
  EXPECT_THAT(result.log,
              ::testing::ContainsRegex("\\[2\\] heard: .*process 1 \\(host .*signal 9 \\(SIGKILL\\)"));
  EXPECT_THAT(result.log, AllOf(HasSubstr("the job failed: process 1 (host "),
                                HasSubstr("as a consequence: processes 0, 2 died: exit status 3\n")));
}

LOCKSTEP_CHILD(process_one_says_why_it_ends) {
  auto client = join();
  if (client->process_id() != 1) wait_in_vain(*client);
  client->report_own_error("bad input");
  std::_Exit(6);
}

TEST(RunJob, AnErrorReportedByAProcess_ReachesTheOthers) {
  const auto result =
      lockstep(Words{"run", "-n", "3", "--"} + testing::command_of_child("process_one_says_why_it_ends"));
  EXPECT_EQ(result.exit_code, 6);
  EXPECT_THAT(result.log, ::testing::ContainsRegex(
                              "\\[0\\] heard: process 1 \\(host .* ended with an error: bad input\n"));
  EXPECT_THAT(result.log, ::testing::ContainsRegex(
                              "the job failed: process 1 \\(host .* ended with an error: bad input"));
}

LOCKSTEP_CHILD(process_one_leaves_early) {
  auto client = join();
  if (client->process_id() == 1) std::_Exit(0);
  wait_in_vain(*client);
}

TEST(RunJob, LeavingWithoutShutdown_IsAFailure) {
  const auto result =
      lockstep(Words{"run", "-n", "2", "--"} + testing::command_of_child("process_one_leaves_early"));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.log,
              ::testing::ContainsRegex(
                  "\\[0\\] heard: .*process 1 \\(host .*ended with status 0 without shutdown\\(\\)"));
}

LOCKSTEP_CHILD(process_one_never_comes) {
  if (std::string(std::getenv("LOCKSTEP_PROCESS_ID")) == "1") return;
  try {
    join();
  } catch (const Error& error) {
    testing::say(std::string("heard: ") + error.what());
    std::_Exit(3);
  }
}

TEST(RunJob, EndingWithoutInitialize_IsAFailure) {
  const auto result =
      lockstep(Words{"run", "-n", "2", "--"} + testing::command_of_child("process_one_never_comes"));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.log,
              ::testing::ContainsRegex(
                  "\\[0\\] heard: .*process 1 \\(host .*ended with status 0 without initialize\\(\\)"));
}

LOCKSTEP_CHILD(process_one_stops) {
  auto client = join();
  if (client->process_id() == 1) raise(SIGSTOP);
  wait_in_vain(*client);
}

TEST(RunJob, AProcessWithoutHeartbeats_IsNamedAndKilled) {
  const auto result = lockstep(Words{"run", "-n", "2", "--heartbeat-timeout", "2", "--grace", "0.4", "--"} +
                               testing::command_of_child("process_one_stops"));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.log, HasSubstr("the job failed: process 1 (host "));
  EXPECT_THAT(result.log, HasSubstr("died: no heartbeat for 2 s"));
}

LOCKSTEP_CHILD(does_all_that_is_asked) {
  auto client = join();
  client->barrier("all", std::chrono::minutes(10));
  client->shutdown();
}

TEST(RunJob, AJobThatShutsDown_EndsWithStatusZeroAndNoOutput) {
  const auto result =
      lockstep(Words{"run", "-n", "4", "--"} + testing::command_of_child("does_all_that_is_asked"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.log, "");
}

}  // namespace
}  // namespace lockstep::cli
