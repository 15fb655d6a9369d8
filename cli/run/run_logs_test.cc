// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "cli/testing/tool.h"
#include "lockstep/testing/process_logs.h"
#include "lockstep/testing/temporary_folder.h"

// `lockstep run` whose hosts write the logs, and whose output is not printed.

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProcessResult;
using ::testing::UnorderedElementsAre;

class RunLogs : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& name) const { return folder_.path() / name; }
  std::string log(const std::string& name) const { return testing::read_file(file("logs") / name); }

  // On pretended hosts: $host is the host.
  ProcessResult run(const std::string& hosts, const Words& more,
                    const std::string& rsh = "exec sh -c \"$*\"") {
    const std::string script = write_script(file("rsh"), "#!/bin/sh\nhost=$1; shift\n" + rsh + "\n");
    return lockstep(Words{"run", "--hosts", hosts, "--rsh", script, "--coordinator-address", "127.0.0.1",
                          "--grace", "0.4"} +
                    more);
  }

  testing::TemporaryFolder folder_;
};

TEST_F(RunLogs, HostsWriteTheirProcessesLogs_AndTheLauncherShowsNothing) {
  const auto result = run("a:2,b:1", Words{"--log-dir-on-hosts", file("logs"), "--show-output", "none"} +
                                         shell("echo out $LOCKSTEP_PROCESS_ID; echo err >&2; printf rest; "
                                               "[ $LOCKSTEP_LOG_DIR = " +
                                               file("logs").string() + " ]"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.log, "");
  for (const char* process : {"0", "1", "2"})
    EXPECT_THAT(
        log("process-" + std::string(process) + ".log"),
        AllOf(HasSubstr("out " + std::string(process) + "\n"), HasSubstr("err\n"), HasSubstr("rest")));
}

TEST_F(RunLogs, EachHost_HasLogsOfItsOwnProcessesOnly) {
  if (geteuid() != 0 || std::system("unshare --mount true 2> /dev/null") != 0)
    GTEST_SKIP() << "needs root, for a folder that differs between hosts";
  for (const char* host : {"a", "b"}) std::filesystem::create_directory(file(host));
  std::filesystem::create_directory(file("logs"));
  const auto result =
      run("a:2,b:1", Words{"--log-dir-on-hosts", file("logs")} + shell("echo $LOCKSTEP_PROCESS_ID"),
          "exec unshare --mount sh -c \"mount --bind " + folder_.path().string() + "/$host " +
              file("logs").string() + " && $*\"");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(lines_of(result.log), UnorderedElementsAre("[0@a] 0", "[1@a] 1", "[2@b] 2"));
  EXPECT_EQ(testing::read_file(file("a") / "process-1.log"), "1\n");
  EXPECT_EQ(testing::read_file(file("b") / "process-2.log"), "2\n");
  EXPECT_FALSE(std::filesystem::exists(file("b") / "process-1.log"));
  EXPECT_TRUE(std::filesystem::is_empty(file("logs")));
}

TEST_F(RunLogs, ShowOutput_ShowsOnlyTheGivenProcesses) {
  const auto result = run("a:2,b:2", Words{"--log-dir-on-hosts", file("logs"), "--show-output", "0,2-3"} +
                                         shell("echo $LOCKSTEP_PROCESS_ID"));
  EXPECT_THAT(lines_of(result.log), UnorderedElementsAre("[0@a] 0", "[2@b] 2", "[3@b] 3"));
  EXPECT_EQ(log("process-1.log"), "1\n");
}

TEST_F(RunLogs, LogsOfEarlierRunsAndStarts_AreKept) {
  const Words words = {"--log-dir-on-hosts", file("logs"), "--max-restarts", "1", "--show-output", "none"};
  for (int i = 0; i < 2; ++i)
    run("a:1,b:1", words + shell("echo start $LOCKSTEP_ATTEMPT; [ $LOCKSTEP_ATTEMPT = 1 ]"));
  EXPECT_EQ(log("process-1.log"), "start 0\n");
  EXPECT_EQ(log("process-1.attempt-1.log"), "start 1\n");
  EXPECT_EQ(log("process-1.log.1"), "start 0\n");
  EXPECT_EQ(log("process-1.attempt-1.log.1"), "start 1\n");
}

TEST_F(RunLogs, AHostThatCannotWriteLogs_IsNamed) {
  const auto nowhere = run("a:1,b:1", Words{"--log-dir-on-hosts", "/dev/null/logs"} + shell("echo never"));
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_THAT(nowhere.log, AllOf(HasSubstr("lockstep: host "),
                                 HasSubstr(": cannot write logs in /dev/null/logs: Not a directory\n"),
                                 Not(HasSubstr("never"))));
  std::filesystem::create_directory(file("logs"));
  std::filesystem::create_symlink("/dev/full", file("logs") / "process-1.log");
  const auto full = run("a:1,b:1", Words{"--log-dir-on-hosts", file("logs")} + shell("echo here"));
  EXPECT_EQ(full.exit_code, 0);
  EXPECT_THAT(
      lines_of(full.log),
      UnorderedElementsAre("[0@a] here", "[1@b] here",
                           "lockstep: host b: cannot write " + (file("logs") / "process-1.log").string() +
                               ": No space left on device; from here on logs lack what could not be "
                               "written"));
}

TEST_F(RunLogs, OnTheLaunchersHost_LogsAreWrittenInTheSameWay) {
  const auto result =
      lockstep(Words{"run", "-n", "2", "--log-dir-on-hosts", file("logs"), "--show-output", "1"} +
               shell("echo $LOCKSTEP_PROCESS_ID $LOCKSTEP_LOG_DIR"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.log, "[1] 1 " + file("logs").string() + "\n");
  EXPECT_EQ(log("process-0.log"), "0 " + file("logs").string() + "\n");
}

TEST_F(RunLogs, OutputThatIsNotShown_IsInTheLogsAndTheFailureReport) {
  const auto result = run(
      "a:1,b:1", Words{"--log-dir", file("logs"), "--report-dir", file("reports"), "--show-output", "none"} +
                     shell("echo here; [ $LOCKSTEP_PROCESS_ID = 0 ]"));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.log, Not(HasSubstr("here")));
  EXPECT_EQ(log("process-1.log"), "here\n");
  std::string ends;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(file("reports")))
    if (entry.path().filename() == "log-ends.txt") ends = testing::read_file(entry.path());
  EXPECT_THAT(ends, HasSubstr("here"));
}

TEST_F(RunLogs, ALogThatIsAFifo_NeverBlocksTheLauncher) {
  const std::filesystem::path logs = folder_.path() / "fifos";
  std::filesystem::create_directory(logs);
  ASSERT_EQ(mkfifo((logs / "process-0.log").c_str(), 0600), 0);
  const Words words = Words{"run", "-n", "1", "--log-dir", logs} + shell("echo words");
  const auto without_reader = lockstep(words);
  EXPECT_EQ(without_reader.exit_code, 1);
  EXPECT_THAT(without_reader.log, HasSubstr("process-0.log: nobody reads from it\n"));
  const int reader = open((logs / "process-0.log").c_str(), O_RDONLY | O_NONBLOCK);
  const auto with_reader = lockstep(words);
  EXPECT_EQ(with_reader.log, "[0] words\n");
  char bytes[16];
  EXPECT_EQ(
      std::string(bytes, static_cast<std::size_t>(std::max<ssize_t>(0, read(reader, bytes, sizeof bytes)))),
      "words\n");
  close(reader);
}

TEST_F(RunLogs, ImpossibleOptions_AreRefused) {
  const auto both = lockstep({"run", "-n", "1", "--log-dir", "a", "--log-dir-on-hosts", "b", "--", "true"});
  EXPECT_EQ(both.exit_code, 2);
  const auto nobody = lockstep({"run", "-n", "2", "--show-output", "2", "--", "true"});
  EXPECT_EQ(nobody.exit_code, 2);
  EXPECT_THAT(nobody.log, HasSubstr("--show-output '2' names process 2, but the job has processes 0 to 1"));
}

}  // namespace
}  // namespace lockstep::cli
