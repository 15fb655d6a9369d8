// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "cli/status/prometheus.h"
#include "cli/status/status_json.h"
#include "cli/testing/prometheus.h"
#include "cli/testing/reports.h"
#include "cli/testing/tool.h"
#include "lockstep/base/text.h"
#include "lockstep/coordination/client/client.h"
#include "lockstep/testing/outside_texts.h"
#include "lockstep/testing/process_logs.h"
#include "lockstep/testing/temporary_folder.h"
#include "lockstep/watch/phase.h"
#include "lockstep/watch/proc_state.h"
#include "lockstep/watch/recorder.h"

// Names of programs, hosts and phases with any bytes, on their way from a job's processes to the users; and
// processes in pid namespaces of their own.

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::outside_texts;
using testing::Processes;
using testing::ProcessResult;

constexpr char kReplacement[] = "\xef\xbf\xbd";  // what JSON's writers put for what they cannot read

/// The launcher's board of a job on several hosts, with this text for each name.
StatusBoard board_with(const std::string& text) {
  StatusBoard board("cafe", {"./train", text}, 2);
  std::vector<watch::ProcessReport> reports;
  for (int process = 0; process < 2; ++process) {
    watch::ProcessReport report = process == 1 ? own_code_report(process) : waiting_report(process);
    report.host = report.evidence.call = report.evidence.thread_name = text;
    report.metrics = nlohmann::json{{shown(text), 1}}.dump();
    report.threads[0].last.what = report.threads[0].last.site = text;
    for (watch::Activity& each : report.threads[0].doing) each.what = each.site = text;
    reports.push_back(watch::from_json(nlohmann::json::parse(watch::to_json(report).dump())));
    board.take(reports.back());
  }
  board.set_stalls(watch::diagnose(reports));
  board.set_failure(text);
  board.said(text);
  return board;
}

TEST(OutsideText, InAJobsStatus_IsUtf8InJsonAndPrometheus) {
  for (const auto& [what, text] : outside_texts()) {
    SCOPED_TRACE(what);
    const auto view = board_with(text).view();
    const std::string json = to_text(to_json(*view, true));
    EXPECT_TRUE(is_utf8(json));
    EXPECT_THAT(json, Not(HasSubstr(kReplacement)));
    const ReadView read = view_from_json(nlohmann::json::parse(json));
    EXPECT_EQ(read.view.command, shown_lines("./train " + text, 16 << 10));
    EXPECT_EQ(read.view.failure, shown_lines(text));
    EXPECT_EQ(read.view.events.at(0).text, shown_lines(text));
    EXPECT_EQ(read.view.processes[0].host, is_utf8(text) ? text : shown_lines(text));
    const std::string metrics = prometheus_text(*view);
    EXPECT_TRUE(is_utf8(metrics));
    EXPECT_THAT(metrics, Not(HasSubstr(kReplacement)));
    int samples = 0;
    for (Sample& sample : parse_prometheus(metrics)) {
      if (sample.name != "lockstep_metric") continue;
      ++samples;
      EXPECT_EQ(sample.labels["name"], shown(text));
    }
    EXPECT_EQ(samples, 2);
  }
}

LOCKSTEP_CHILD(has_a_name_of_any_bytes) {
  prctl(PR_SET_NAME, "apprentissage-\xc3");  // as the kernel cuts it
  auto client = join();
  {
    const Phase phase(
        "donn\xe9"
        "es");
    std::this_thread::sleep_for(milliseconds(1500));  // it is looked at each second
  }
  client->barrier("all", std::chrono::minutes(10));
  client->shutdown();
  testing::say("left");
}

TEST(OutsideText, InNamesOfHostsAndThreads_DoesNotEndTheAgents) {
  testing::TemporaryFolder folder;
  const std::string rsh = write_script(folder.path() / "rsh", "#!/bin/sh\nshift\nexec sh -c \"$*\"\n");
  const auto result = lockstep(Words{"run", "--hosts",
                                     "a:1,h\xf4"
                                     "te:1",
                                     "--rsh", rsh, "--coordinator-address", "127.0.0.1", "--"} +
                               testing::command_of_child("has_a_name_of_any_bytes"));
  EXPECT_EQ(result.exit_code, 0) << result.log;
  EXPECT_THAT(result.log, AllOf(HasSubstr("[0@a] left"), HasSubstr("[1@h\\xf4te] left")));
}

// Waits in open() until somebody opens the FIFO for writing.
LOCKSTEP_CHILD(waits_in_a_pid_namespace) {
  watch::set_process(std::atoi(std::getenv("LOCKSTEP_PROCESS_ID")), 2);
  const Phase phase("inside");
  std::ifstream{testing::child_arguments().at(0)};
}

TEST(ProcessInAPidNamespace, IsReportedByItsPidOnTheHost) {
  if (geteuid() != 0 || std::system("unshare --pid --fork --mount-proc true 2> /dev/null") != 0)
    GTEST_SKIP() << "needs root, for pid namespaces";
  testing::TemporaryFolder folder;
  const testing::Variables env = {{"LOCKSTEP_SOCKET_DIR", folder.path() / "sockets"}};
  const fs::path go_on = folder.path() / "go_on";
  ASSERT_EQ(mkfifo(go_on.c_str(), 0600), 0);
  // In its namespace its pid is 1, which is another process on the host.
  Processes job(tool(Words{"run", "-n", "2", "--", "unshare", "--pid", "--fork", "--mount-proc"} +
                         testing::command_of_child("waits_in_a_pid_namespace", {go_on.native()}),
                     env));
  nlohmann::json rows;
  const auto all_are_inside = [&] {
    const auto status = nlohmann::json::parse(lockstep({"status", "--json"}, env).log, nullptr, false);
    rows = status.is_object() ? status["processes"] : nlohmann::json::array();
    return rows.size() == 2 && rows[0]["state"] == "phase" && rows[1]["state"] == "phase";
  };
  const auto deadline = std::chrono::steady_clock::now() + seconds(50);
  while (!all_are_inside() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(milliseconds(100));
  for (const auto& row : rows) {
    EXPECT_THAT(row["words"].get<std::string>(), HasSubstr("phase \"inside\"")) << row;
    EXPECT_NE(row["detail"], "") << row;  // what the kernel says of its thread
    const watch::ProcessState state = watch::read_process_state(row["pid"].get<int>());
    EXPECT_EQ(state.own_pid, 1) << row;
    EXPECT_EQ(watch::read_process_state(state.parent).name, "unshare");
    EXPECT_GT(row["memory"].get<double>(), 1e5);
  }
  EXPECT_THAT(lockstep({"stacks"}, env).log, HasSubstr("open"));
  std::ofstream{go_on};  // which ends the open() of both
  EXPECT_EQ(job.wait(0).exit_code, 0);
}

}  // namespace
}  // namespace lockstep::cli
