// SPDX-License-Identifier: Apache-2.0
#include "cli/run/failure_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/testing/tool.h"
#include "lockstep/testing/process_logs.h"
#include "lockstep/testing/temporary_folder.h"

// `lockstep run --report-dir`, of jobs in which one process does something wrong.

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ReportOfAFailure : public ::testing::Test {
 protected:
  /// The folder of the only attempt.
  std::filesystem::path run(const Words& how) {
    result_ = lockstep(Words{"run", "-n", "3", "--report-dir", folder_.path().string()} + how);
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) return entry.path();
    return {};
  }
  std::string read(const std::filesystem::path& report, const char* file) {
    return testing::read_file(report / file);
  }

  testing::TemporaryFolder folder_;
  testing::ProcessResult result_;
};

TEST_F(ReportOfAFailure, AStall_ReportsTheStacksOfAllProcessesBeforeTheyAreEnded) {
  const auto report = run(
      {"--stall-warning", "1", "--stall-timeout", "2", "--", LOCKSTEP_STALL_PROCESS, "spin", "1", "3", "60"});
  ASSERT_NE(report, "");
  EXPECT_NE(result_.exit_code, 0);
  EXPECT_THAT(result_.log, HasSubstr("what each process did is in " + report.string()));
  EXPECT_THAT(
      read(report, "summary.txt"),
      AllOf(HasSubstr("longer than --stall-timeout 2 s"), HasSubstr("process 0 "), HasSubstr("process 1 "),
            HasSubstr("in launch jit@stall_process.cc:"), HasSubstr("in its own code since")));
  EXPECT_THAT(read(report, "stacks.txt"),
              AllOf(HasSubstr("1 process: 1\n"), HasSubstr("spin"), HasSubstr("2 processes: 0,2\n")));
  const auto processes = nlohmann::json::parse(read(report, "processes.json"));
  EXPECT_EQ(processes.size(), 3u);
}

TEST_F(ReportOfAFailure, ADeath_ReportsTheLastOutputOfEachProcess) {
  const auto report =
      run(shell("for i in $(seq 3000); do echo line $i of $LOCKSTEP_PROCESS_ID; done; "
                "[ $LOCKSTEP_PROCESS_ID = 1 ] && kill -9 $$; sleep 1"));
  ASSERT_NE(report, "");
  const std::string ends = read(report, "log-ends.txt");
  EXPECT_THAT(ends, AllOf(HasSubstr("== process 0\nline "), HasSubstr("\nline 3000 of 0\n== process 1\n"),
                          HasSubstr("line 3000 of 1\n"), Not(HasSubstr("line 1000 of"))));
  EXPECT_LT(ends.size(), 30'000u);
  EXPECT_THAT(read(report, "summary.txt"), HasSubstr("signal 9"));
}

TEST_F(ReportOfAFailure, AnUnwritableFolder_IsReported_AndTheExitStatusStays) {
  const auto result = lockstep(Words{"run", "-n", "2", "--report-dir", "/proc/none"} + shell("exit 3"));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.log, HasSubstr("no report of the failure: cannot make the folder /proc/none/"));
}

}  // namespace
}  // namespace lockstep::cli
