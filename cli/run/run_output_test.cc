// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <map>
#include <thread>

#include "cli/testing/tool.h"
#include "lockstep/testing/process_logs.h"
#include "lockstep/testing/temporary_folder.h"

// `lockstep run` whose output nobody reads, or slowly, or into a full disk.

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Processes;
using testing::ProcessResult;

// A shell that runs `lockstep run` with these words, its standard output in a pipe whose reader takes
// nothing.
testing::ProcessesOptions with_a_stuck_reader(const std::string& words) {
  return {.program = "/bin/bash",
          .arguments = {"-c", "mkfifo pipe; sleep 1000 < pipe & reader=$!\n" LOCKSTEP_TOOL " run " + words +
                                  " > pipe & echo launcher $!; wait $!; echo status $?; kill $reader"}};
}

TEST(RunOutput, ASignal_IsHandledWhileTheReaderIsStuck) {
  // Neither fills the pipe before both have said who they are.
  const testing::TemporaryFolder folder;
  const std::string begin = folder.path() / "begin";
  Processes job(with_a_stuck_reader("-n 2 -- sh -c 'echo pid $$ >&2; until [ -e " + begin +
                                    " ]; do sleep 0.01; done; exec yes'"));
  for (const char* line : {"launcher ", "[0] pid ", "[1] pid "}) job.wait_for_line(0, line);
  std::ofstream(begin).put('\n');
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // until the pipe is full
  kill(number_after(job.log(0), "launcher "), SIGTERM);
  const ProcessResult result = job.wait(0);
  EXPECT_THAT(result.log, AllOf(HasSubstr("stopped by SIGTERM\n"), HasSubstr("status 143\n")));
  for (const char* what : {"[0] pid ", "[1] pid "}) expect_gone(number_after(result.log, what));
}

TEST(RunOutput, ADeath_IsHandledWhileTheReaderIsStuck) {
  Processes job(
      with_a_stuck_reader("-n 2 --grace 0.1 -- sh -c 'if [ $LOCKSTEP_PROCESS_ID = 1 ]; then sleep "
                          "0.3; exit 3; fi; echo pid $$ >&2; exec yes'"));
  job.wait_for_line(0, "[0] pid ");
  expect_gone(number_after(job.log(0), "[0] pid "));
  // Only the last lines wait for the reader now; who asks for the end does not want them.
  kill(number_after(job.log(0), "launcher "), SIGTERM);
  EXPECT_THAT(job.wait(0).log, AllOf(HasSubstr("process 1 (host "), HasSubstr("status 3\n")));
}

TEST(RunOutput, ASlowReader_LosesNothing_AndNoHostTimesOut) {
  testing::TemporaryFolder folder;
  const std::string rsh = write_script(folder.path() / "rsh", "#!/bin/sh\nshift\nexec sh -c \"$*\"\n");
  const auto result = testing::run_processes(
      {.program = "/bin/bash",
       .arguments = {"-c",
                     LOCKSTEP_TOOL " run --hosts a:1,b:1,c:1,d:1 --rsh " + rsh +
                         " --coordinator-address 127.0.0.1 --heartbeat-timeout 2 -- seq 60000 | { for i in "
                         "$(seq 40); do dd bs=4096 count=1 status=none; sleep 0.1; done; cat; }; echo "
                         "status ${PIPESTATUS[0]}"}})[0];
  EXPECT_THAT(result.log, AllOf(HasSubstr("status 0\n"), Not(HasSubstr("lockstep:"))));
  std::map<std::string, int> lines;
  for (const std::string& line : lines_of(result.log)) {
    if (line.front() != '[') continue;
    ASSERT_EQ(line.substr(6), std::to_string(++lines[line.substr(0, 5)]));
  }
  for (const char* process : {"[0@a]", "[1@b]", "[2@c]", "[3@d]"}) EXPECT_EQ(lines[process], 60000);
}

TEST(RunOutput, OutputThatCannotBeWritten_IsReportedOnce) {
  const auto result = testing::run_processes(
      {.program = "/bin/sh",
       .arguments = {"-c",
                     LOCKSTEP_TOOL " run -n 2 -- sh -c 'echo one; sleep 0.1; echo two' > /dev/full"}})[0];
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.log, "lockstep: cannot write standard output: No space left on device; lines are lost\n");
}

TEST(RunOutput, AReaderThatLeaves_DoesNotEndTheJob) {
  const auto result = testing::run_processes(
      {.program = "/bin/bash",
       .arguments = {
           "-c", LOCKSTEP_TOOL
           " run -n 2 -- sh -c 'echo one; sleep 0.2; echo two; echo end >&2' | head -n 1; echo status "
           "${PIPESTATUS[0]}"}})[0];
  EXPECT_THAT(result.log, AllOf(HasSubstr("[0] end\n"), HasSubstr("[1] end\n"), HasSubstr("status 0\n"),
                                Not(HasSubstr("lockstep:"))));
}

TEST(RunOutput, LogsOfAnEarlierRun_AreKept) {
  Processes job({.program = "/bin/sh",
                 .arguments = {"-c", "for run in one two; do " LOCKSTEP_TOOL
                                     " run -n 2 --log-dir logs -- echo $run; done"}});
  job.wait(0);
  EXPECT_EQ(testing::read_file(job.folder(0) / "logs/process-1.log"), "two\n");
  EXPECT_EQ(testing::read_file(job.folder(0) / "logs/process-1.log.1"), "one\n");
}

}  // namespace
}  // namespace lockstep::cli
