// SPDX-License-Identifier: Apache-2.0
#include "cli/run/job_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/testing/opened_trace.h"
#include "cli/testing/tool.h"
#include "lockstep/testing/process_logs.h"
#include "lockstep/testing/temporary_folder.h"

// `lockstep run --trace` of jobs of 4 processes, of which process 2 sleeps for 0.4 s before its step 3.

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kSlept = 400'000'000;

class JobTraceOf4 : public ::testing::Test {
 protected:
  OpenedTrace run(const Words& how, testing::Variables env = {}) {
    const std::string file = folder_.path() / "trace.pftrace";
    result_ = lockstep(Words{"run", "--trace", file} + how +
                           Words{"--", LOCKSTEP_STALL_PROCESS, "phase", "2", "3", "0.4", "8"},
                       std::move(env));
    EXPECT_EQ(result_.exit_code, 0);
    return OpenedTrace(testing::read_file(file));
  }

  testing::TemporaryFolder folder_;
  testing::ProcessResult result_;
};

std::int64_t clock_error_ns(const OpenedTrace& trace) {
  return static_cast<std::int64_t>(
      std::stod(trace.on("lockstep trace").at(0).arguments.at("clock_error_us")) * 1000);
}

/// The waits and transfers of one launch's collectives.
struct Together {
  std::map<std::string, std::int64_t> came, left;  ///< By process.
};

std::map<std::string, Together> collectives_by_launch(const OpenedTrace& trace) {
  std::map<std::string, Together> all;
  for (const TraceSlice& slice : trace.slices) {
    if (!slice.is("collective") || !slice.arguments.contains("launch")) continue;
    Together& together = all[slice.arguments.at("mesh") + "/" + slice.arguments.at("launch")];
    if (slice.is("wait")) together.came[slice.process] = slice.begin;
    if (slice.is("transfer") || !slice.is("wait")) together.left[slice.process] = slice.end;
  }
  return all;
}

// Each launch of the program has one collective.
void expect_nobody_leaves_before_all_have_come(const OpenedTrace& trace, std::size_t least) {
  const std::int64_t error = 2 * clock_error_ns(trace) + 1000;
  std::size_t complete = 0;
  for (const auto& [launch, together] : collectives_by_launch(trace)) {
    if (together.came.size() < 4) continue;
    ++complete;
    for (const auto& [who_came, came] : together.came)
      for (const auto& [who_left, left] : together.left)
        EXPECT_LE(came, left + error)
            << who_left << " left launch " << launch << " before " << who_came << " came";
  }
  EXPECT_GE(complete, least);
}

// All others have waited for process 2, from when it slept on.
void expect_the_sleep_is_seen(const OpenedTrace& trace) {
  const std::int64_t error = 2 * clock_error_ns(trace) + 1000;
  const auto phase = std::ranges::find(trace.slices, "load", &TraceSlice::name);
  ASSERT_NE(phase, trace.slices.end());
  EXPECT_THAT(phase->process, HasSubstr("process 2 "));
  EXPECT_GE(phase->end - phase->begin, kSlept - error);
  EXPECT_THAT(phase->arguments.at("call_site"), HasSubstr("stall_process.cc:"));
  std::set<std::string> waited;
  for (const TraceSlice& slice : trace.slices) {
    if (slice.is("wait") && slice.begin < phase->end + error && slice.end > phase->end - error)
      waited.insert(slice.process);
  }
  EXPECT_EQ(waited.size() - waited.count(phase->process), 3u);
}

TEST_F(JobTraceOf4, OnOneHost_HasEveryKindOfEventOfAllProcesses) {
  const OpenedTrace trace = run({"-n", "4"});
  EXPECT_THAT(result_.log, AllOf(HasSubstr("lockstep: trace of "), HasSubstr("no event is lost"),
                                 Not(HasSubstr("may be wrong")), HasSubstr("https://ui.perfetto.dev")));
  EXPECT_EQ(trace.pids.size(), 4u);
  EXPECT_EQ(clock_error_ns(trace), 0);
  std::map<std::string, std::set<std::string>> kinds;
  std::map<std::uint64_t, std::set<std::string>> flows;
  for (const TraceSlice& slice : trace.slices) {
    for (const std::string& category : slice.categories) kinds[slice.process].insert(category);
    for (const std::uint64_t flow : slice.flows) flows[flow].insert(slice.process);
  }
  for (const auto& [name, pid] : trace.pids) {
    EXPECT_THAT(name, HasSubstr("(pid " + std::to_string(pid) + ")"));
    for (const char* kind :
         {"initialize", "trace", "compile", "launch", "wait", "transfer", "key", "shutdown"})
      EXPECT_TRUE(kinds[name].contains(kind)) << name << " has no " << kind;
  }
  ASSERT_FALSE(flows.empty());
  for (const auto& [flow, processes] : flows) EXPECT_EQ(processes.size(), 4u);
  expect_nobody_leaves_before_all_have_come(trace, 8);
  expect_the_sleep_is_seen(trace);
}

TEST_F(JobTraceOf4, OnTwoHostsWhoseClocksDiffer_IsOnOneClock) {
  if (geteuid() != 0) GTEST_SKIP() << "a clock of its own needs root";
  // Host b was started 12,345 s before.
  const std::string rsh =
      write_script(folder_.path() / "rsh",
                   "#!/bin/sh\nhost=$1; shift\n[ $host = a ] && exec sh -c \"$*\"\n"
                   "exec unshare --time --monotonic 12345 --fork --kill-child -- sh -c \"$*\"\n");
  const OpenedTrace trace = run({"--hosts", "a:2,b:2", "--rsh", rsh, "--coordinator-address", "127.0.0.1"});
  EXPECT_THAT(result_.log, AllOf(HasSubstr("no event is lost"), HasSubstr("may be wrong by")));
  EXPECT_THAT(trace.pids, ::testing::SizeIs(4));
  for (const auto& [name, pid] : trace.pids)
    EXPECT_THAT(name, AllOf(HasSubstr("(host "), HasSubstr(", pid ")));
  const std::int64_t error = clock_error_ns(trace);
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 1'000'000'000);
  expect_nobody_leaves_before_all_have_come(trace, 8);
  expect_the_sleep_is_seen(trace);
}

TEST_F(JobTraceOf4, OnHostsBehindRelays_IsOnOneClock) {
  if (geteuid() != 0) GTEST_SKIP() << "a clock of its own needs root";
  // Each host is reached over the one before; host d was started 12,345 s before.
  const std::string rsh =
      write_script(folder_.path() / "rsh",
                   "#!/bin/sh\nhost=$1; shift\n[ $host != d ] && exec sh -c \"$*\"\n"
                   "exec unshare --time --monotonic 12345 --fork --kill-child -- sh -c \"$*\"\n");
  const OpenedTrace trace =
      run({"--hosts", "a:1,b:1,c:1,d:1", "--rsh", rsh, "--coordinator-address", "127.0.0.1"},
          {{"LOCKSTEP_HOST_FAN_OUT", "1"}});
  EXPECT_THAT(result_.log, AllOf(HasSubstr("no event is lost"), HasSubstr("may be wrong by"),
                                 Not(HasSubstr("never said what time it is"))));
  EXPECT_THAT(trace.pids, ::testing::SizeIs(4));
  const std::int64_t error = clock_error_ns(trace);
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 1'000'000'000);
  expect_nobody_leaves_before_all_have_come(trace, 8);
  expect_the_sleep_is_seen(trace);
}

TEST(JobTrace, APartOfTheRun_IsTracedForTheSecondsAsked) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.path() / "trace.pftrace";
  const auto result =
      lockstep(Words{"run", "-n", "2", "--trace", file, "--trace-after", "0.1", "--trace-seconds", "0.3"} +
               shell("sleep 1"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, AllOf(HasSubstr("lockstep: trace of "), Not(HasSubstr("early"))));
  const TraceSlice itself = OpenedTrace(testing::read_file(file)).on("lockstep trace").at(0);
  EXPECT_GE(itself.end - itself.begin, 299'000'000);
  const auto too_late =
      lockstep(Words{"run", "-n", "1", "--trace", file, "--trace-after", "100"} + shell("true"));
  EXPECT_THAT(too_late.log, HasSubstr("lockstep: no trace was taken: this ended before --trace-after 100 s"));
}

// The job goes on until the trace that another one asks its launcher for is there.
TEST(JobTrace, ARunningJob_IsTracedByItsLauncher) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.path() / "trace.pftrace", end = folder.path() / "end";
  const testing::Variables sockets = {{"LOCKSTEP_SOCKET_DIR", folder.path() / "sockets"}};
  testing::Processes job(tool(
      Words{"run", "-n", "2"} + shell("echo runs; until [ -e " + end + " ]; do sleep 0.05; done"), sockets));
  job.wait_for_line(0, "[1] runs");
  const auto asked = lockstep({"trace", "--seconds", "0.2", "-o", file}, sockets);
  EXPECT_EQ(asked.exit_code, 0);
  EXPECT_THAT(asked.log,
              AllOf(HasSubstr("lockstep trace: trace of "), HasSubstr(" of 2 processes in " + file)));
  const OpenedTrace trace(testing::read_file(file));
  EXPECT_EQ(trace.pids.size(), 2u);
  const auto nowhere = lockstep({"trace", "--seconds", "0.2", "-o", "/nowhere/trace"}, sockets);
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_THAT(nowhere.log, HasSubstr("cannot write the trace /nowhere/trace: No such file or directory"));
  std::ofstream(end).put('.');
  EXPECT_EQ(job.wait(0).exit_code, 0);
  EXPECT_EQ(lockstep({"trace", "--seconds", "0.2", "-o", file}, sockets).exit_code, 1);
}

// If the launcher opened the file, it would wait for a FIFO's reader, and /dev/stdout would be its own
// output.
TEST(JobTrace, ATraceOfARunningJob_IsWrittenToTheGivenFile) {
  const testing::TemporaryFolder folder;
  const std::string fifo = folder.path() / "fifo", trace = folder.path() / "trace";
  const testing::Variables sockets = {{"LOCKSTEP_SOCKET_DIR", folder.path() / "sockets"}};
  testing::Processes job(
      tool(Words{"run", "-n", "1"} +
               shell("trap 'echo saved; exit 5' TERM; echo runs; while :; do sleep 0.05; done"),
           sockets));
  job.wait_for_line(0, "[0] runs");
  const auto ask = [&](const std::string& words) {
    return testing::run_processes({.program = "/bin/bash", .arguments = {"-c", words}, .env = sockets})[0];
  };
  EXPECT_EQ(ask(LOCKSTEP_TOOL " trace --seconds 0.1 -o /dev/stdout > " + trace).exit_code, 0);
  EXPECT_EQ(OpenedTrace(testing::read_file(trace)).pids.size(), 1u);
  EXPECT_EQ(ask("mkfifo " + fifo + "; cat " + fifo + " > " + trace +
                ".2 & " LOCKSTEP_TOOL " trace --seconds 0.1 -o " + fifo + " && wait")
                .exit_code,
            0);
  EXPECT_EQ(OpenedTrace(testing::read_file(trace + ".2")).pids.size(), 1u);
  EXPECT_EQ(ask("timeout 0.5 " LOCKSTEP_TOOL " trace --seconds 0.1 -o " + fifo).exit_code, 124);
  job.kill(0, SIGTERM);
  const auto result = job.wait(0);
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.log, HasSubstr("[0] saved\n"));
}

TEST(JobTrace, ToAFifoWithoutAReader_IsAnError_AndTheJobContinues) {
  const testing::TemporaryFolder folder;
  const std::string fifo = folder.path() / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const auto result = lockstep(Words{"run", "-n", "1", "--trace", fifo} + shell("echo ran"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, AllOf(HasSubstr("[0] ran\n"),
                                HasSubstr("cannot write the trace " + fifo + ": nobody reads from it")));
}

TEST(JobTrace, AnUnwritableTraceFile_IsAnErrorBeforeAnythingStarts) {
  const auto result = lockstep({"run", "-n", "2", "--trace", "/nowhere/trace", "--", "echo", "started"});
  EXPECT_EQ(result.exit_code, kUsage);
  EXPECT_THAT(result.log,
              AllOf(HasSubstr("/nowhere/trace: No such file or directory"), Not(HasSubstr("] started"))));
  EXPECT_EQ(lockstep({"run", "-n", "2", "--trace-seconds", "1", "--", "echo", "started"}).exit_code, kUsage);
}

TEST(JobTrace, ARestart_HasATraceFileOfItsOwn) {
  EXPECT_EQ(trace_of_attempt("a/t.pftrace", 0), "a/t.pftrace");
  EXPECT_EQ(trace_of_attempt("a/t.pftrace", 2), "a/t.attempt-2.pftrace");
  EXPECT_EQ(trace_of_attempt("t", 1), "t.attempt-1");
}

}  // namespace
}  // namespace lockstep::cli
