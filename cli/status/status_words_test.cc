// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/base/output.h"
#include "cli/base/words.h"
#include "cli/status/http_access.h"
#include "cli/status/job_view.h"
#include "cli/status/prometheus.h"
#include "cli/status/status_board.h"
#include "cli/status/status_json.h"
#include "cli/status/status_table.h"
#include "cli/testing/prometheus.h"
#include "cli/testing/reports.h"
#include "cli/testing/tool.h"
#include "lockstep/base/hex.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using watch::Kind;
using watch::ProcessReport;

ProcessReport in(Kind kind, const std::string& what) {
  ProcessReport report = own_code_report(0);
  report.threads.front().doing = {{.kind = kind, .what = what, .site = "train.cc:7", .seconds = 3}};
  return report;
}

std::string words_of(const ProcessReport& report) { return row_of(report).words; }

ReadView read(const StatusBoard& board) { return view_from_json(to_json(*board.view())); }

TEST(StatusWords, ABusyThread_IsDescribedByItsOperation) {
  EXPECT_EQ(words_of(in(Kind::kCompile, "step(f32[4])")), "compiles step(f32[4])");
  EXPECT_EQ(words_of(in(Kind::kTrace, "step")), "traces step");
  EXPECT_EQ(words_of(in(Kind::kLaunch, "step")), "computes step");
  EXPECT_EQ(words_of(in(Kind::kPhase, "load")), "phase \"load\"");
  EXPECT_EQ(words_of(in(Kind::kInput, "batch 3")), "waits for input, batch 3");
  EXPECT_EQ(words_of(in(Kind::kSave, "run")), "saves run");
  EXPECT_EQ(words_of(in(Kind::kBarrier, "b")), "waits at barrier 'b'");
  EXPECT_EQ(row_of(in(Kind::kCompile, "step")).state, RowState::kCompiles);
  EXPECT_EQ(row_of(in(Kind::kCompile, "step")).site, "train.cc:7");
  EXPECT_DOUBLE_EQ(row_of(in(Kind::kCompile, "step")).seconds, 3);
}

TEST(StatusWords, AWait_NamesThoseWhoAreMissing) {
  ProcessReport report = waiting_report(0);
  EXPECT_EQ(words_of(report), "waits in psum f32[4] for process 1");
  EXPECT_EQ(row_of(report).site, "train.cc:40");
  report.threads.front().doing.back().what = "psum f32[4] at train.cc:40 (program step(f32[4]), call 0)";
  EXPECT_EQ(words_of(report), "waits in psum f32[4] for process 1");
  report.threads.front().missing = {1, 2, 3, 9};
  report.threads.front().missing_count = 4;
  EXPECT_EQ(words_of(report), "waits in psum f32[4] for processes 1-3, 9");
  report.threads.front().missing_count = 40;
  EXPECT_EQ(words_of(report), "waits in psum f32[4] for processes 1-3, 9 and 36 more");
  report.threads.front().doing.back().arrived = true;
  EXPECT_EQ(words_of(report), "in psum f32[4]");
  EXPECT_EQ(row_of(report).state, RowState::kTransfers);
}

TEST(StatusWords, ACollectiveOnAnotherThread_IsReportedForTheLaunch) {
  ProcessReport report = waiting_report(0);
  watch::ThreadReport pool = report.threads.front();
  report.threads.front().doing.pop_back();
  report.threads.front().missing_count = 0;
  pool.tid = 77;
  pool.launches = 0;
  pool.doing.erase(pool.doing.begin());
  report.threads.push_back(pool);
  EXPECT_EQ(words_of(report), "waits in psum f32[4] for process 1");
  EXPECT_EQ(row_of(report).site, "train.cc:40");
}

TEST(StatusWords, OwnCode_IsDescribedByItsLastOperationAndState) {
  ProcessReport report = own_code_report(1);
  EXPECT_EQ(words_of(report), "own code since step");
  EXPECT_EQ(row_of(report).detail, "uses 98% of a core");
  EXPECT_DOUBLE_EQ(row_of(report).seconds, 2.1);
  report.evidence = {.state = 'S', .call = "clock_nanosleep"};
  EXPECT_EQ(row_of(report).detail, "sleeps (clock_nanosleep)");
  report.evidence = {.state = 'T'};
  EXPECT_EQ(words_of(report), "stopped by a signal");
  report.evidence = {};
  report.joined = report.came = false;
  EXPECT_EQ(words_of(report), "has not called initialize()");
}

TEST(StatusWords, AnEndedProcess_IsDescribedByItsOutcome) {
  StatusBoard board = made_up_board(3);
  board.ended(0, {.exit_code = 0});
  board.ended(1, {.signal = 9});
  const auto view = board.view();
  EXPECT_EQ(view->processes[0].state, RowState::kEnded);
  EXPECT_EQ(view->processes[1].state, RowState::kFailed);
  EXPECT_EQ(view->processes[1].words, "died: signal 9 (SIGKILL)");
  EXPECT_EQ(view->processes[2].state, RowState::kWaits);
  board.begin(1);
  EXPECT_EQ(board.view()->processes[1].words, "not started");
  EXPECT_EQ(board.view()->processes[1].restarts, 1);
}

TEST(StatusWords, Shares_AreGivenForTheWholeTimeAndTheLastSeconds) {
  StatusBoard board("id", {"train"}, 1);
  ProcessReport report = own_code_report(0);
  report.wait_seconds = 10;
  for (int second = 100; second <= 120; ++second) {
    report.age_seconds = second;
    if (second > 110) report.wait_seconds += 0.5;  // half of each second
    board.take(report);
  }
  const ProcessRow row = board.view()->processes[0];
  EXPECT_NEAR(row.recent_share.wait, 0.5, 1e-9);
  EXPECT_NEAR(row.share.wait, 15.0 / 120, 1e-9);
}

TEST(StatusWords, AWaitThatGoesOn_CountsBeforeItEnds) {
  StatusBoard board("id", {"train"}, 1);
  ProcessReport report = waiting_report(0);
  for (int second = 1; second <= 10; ++second) {
    report.age_seconds = 100 + second;
    report.threads.front().doing.back().seconds = second;
    board.take(report);
  }
  EXPECT_NEAR(board.view()->processes[0].recent_share.wait, 1, 1e-9);
}

TEST(StatusWords, TheWaitOfSeveralDevices_IsTheirMean) {
  ProcessReport report = own_code_report(0);
  report.wait_seconds = 200;  // four devices, each 50 of 100 s
  EXPECT_DOUBLE_EQ(row_of(report, 4).share.wait, 0.5);
}

TEST(StatusWords, Stragglers_AreThoseThatWaitMuchLessThanTheOthers) {
  const auto rows = [](std::vector<double> waits) {
    std::vector<ProcessRow> all;
    for (const double wait : waits) {
      ProcessRow& row = all.emplace_back();
      row.process = static_cast<int>(all.size()) - 1;
      row.collectives = 1;
      row.state = RowState::kComputes;
      row.recent_share.wait = row.share.wait = wait;
    }
    return find_stragglers(all);
  };
  const auto found = rows({0.5, 0.45, 0.02, 0.55});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].process, 2);
  EXPECT_DOUBLE_EQ(found[0].others_wait_share, 0.5);
  EXPECT_THAT(rows({0.5, 0.01, 0.02, 0.55, 0.5}), SizeIs(2));
  EXPECT_EQ(rows({0.01, 0.6}).front().process, 0);
  EXPECT_THAT(rows({0.3, 0.32, 0.29, 0.31}), IsEmpty());
  EXPECT_THAT(rows({0.01, 0.02, 0.0, 0.7}), IsEmpty());  // one that waits alone is not held up by all
  EXPECT_THAT(rows({0.5}), IsEmpty());
}

TEST(StatusJson, IsReadBackUnchanged) {
  StatusBoard board = made_up_board(4, 2);
  board.said("process 1 is late");
  board.set_failure("process 3 died");
  const auto view = board.view();
  const ReadView back = view_from_json(nlohmann::json::parse(to_text(to_json(*view))));
  EXPECT_EQ(back.view.command, "./train --lr 0.001");
  EXPECT_EQ(back.view.failure, "process 3 died");
  EXPECT_EQ(back.num_processes, 4);
  ASSERT_THAT(back.view.processes, SizeIs(4));
  for (int i = 0; i < 4; ++i) {
    const ProcessRow &one = view->processes[i], &other = back.view.processes[i];
    EXPECT_EQ(one.words, other.words);
    EXPECT_EQ(one.state, other.state);
    EXPECT_EQ(one.host, other.host);
    EXPECT_EQ(one.step, other.step);
    EXPECT_NEAR(one.share.wait, other.share.wait, 1e-4);
    EXPECT_EQ(one.memory_bytes, other.memory_bytes);
    ASSERT_EQ(one.device_memory.size(), other.device_memory.size());
    for (std::size_t d = 0; d < one.device_memory.size(); ++d) {
      EXPECT_EQ(one.device_memory[d].in_use, other.device_memory[d].in_use);
      EXPECT_EQ(one.device_memory[d].limit, other.device_memory[d].limit);
    }
    EXPECT_EQ(nlohmann::json::parse(one.metrics), nlohmann::json::parse(other.metrics));
  }
  ASSERT_THAT(back.stalls, SizeIs(1));
  EXPECT_THAT(back.stalls[0],
              AllOf(HasSubstr("processes 0, 2, 3 of 4 wait in psum f32[4]"), HasSubstr("process 1")));
  ASSERT_THAT(back.view.stragglers, SizeIs(1));
  EXPECT_EQ(back.view.stragglers[0].process, 1);
  ASSERT_THAT(back.view.events, SizeIs(1));
  EXPECT_EQ(back.view.events[0].text, "process 1 is late");
}

TEST(StatusJson, BytesThatAreNotUtf8_GiveValidJson) {
  StatusBoard board("id", {"\xff\xfe"}, 1);
  ProcessReport report = in(Kind::kPhase, "a\xc3");
  report.metrics = "no JSON";
  board.take(report);
  EXPECT_TRUE(nlohmann::json::accept(to_text(to_json(*board.view()))));
}

TEST(StatusTable, HasALineForEachProcess) {
  const std::string text = status_table(read(made_up_board(4)), {});
  const std::vector<std::string> lines = lines_of(text);
  ASSERT_THAT(lines, SizeIs(8)) << text;
  EXPECT_THAT(lines[0], AllOf(HasSubstr("job 00000000deadbeef: ./train --lr 0.001, running"),
                              HasSubstr("4 processes")));
  EXPECT_THAT(lines[1], AllOf(HasSubstr("PROCESS"), HasSubstr("STEP"), HasSubstr("METRICS"),
                              Not(HasSubstr("HOST")), Not(HasSubstr("RESTARTS"))));
  EXPECT_THAT(lines[2],
              AllOf(HasSubstr("waits in psum f32[4] for process 1"), HasSubstr("1,200"),
                    HasSubstr("loss 0.25"), HasSubstr("300.0 MiB"), HasSubstr("6.0 GiB of 8.0 GiB")));
  EXPECT_THAT(lines[3], HasSubstr("own code since step; uses 98% of a core"));
  EXPECT_THAT(lines[6], HasSubstr("stalled for 2 s"));
  EXPECT_THAT(lines[7], HasSubstr("process 1 waits 4% of its time, the others"));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
}

TEST(StatusTable, FitsTheTerminal) {
  for (const int columns : {60, 80, 100, 132, 200}) {
    const std::string text = status_table(read(made_up_board(12, 3)), {.columns = columns});
    const std::vector<std::string> lines = lines_of(text);
    for (std::size_t i = 1; i < 14; ++i) {
      EXPECT_EQ(fit(lines[i], columns), lines[i]) << "at " << columns << " columns:\n" << text;
      EXPECT_THAT(lines[i], AnyOf(HasSubstr("psum"), HasSubstr("own code"), HasSubstr("STATE"))) << text;
    }
  }
}

TEST(StatusTable, IsColouredWhereAskedFor) {
  EXPECT_THAT(status_table(read(made_up_board(2)), {.color = true}), HasSubstr("\033[33m"));
}

TEST(StatusTable, EscapeSequencesInTexts_AreNotPrinted) {
  StatusBoard board("id", {"train\033[2J"}, 1);
  board.take(in(Kind::kPhase, "a\033]0;title\007\n"));
  EXPECT_THAT(status_table(read(board), {}), Not(HasSubstr("\033")));
}

TEST(StatusTable, ProcessesThatDoTheSame_ShareALine) {
  const std::string text = status_table(read(made_up_board(500, 5)), {});
  const std::vector<std::string> lines = lines_of(text);
  ASSERT_THAT(lines, SizeIs(6)) << text;
  EXPECT_THAT(lines[2], HasSubstr("own code since step"));
  EXPECT_THAT(lines[3], AllOf(HasSubstr("499 of them"), HasSubstr("5 hosts"), HasSubstr("0, 2-499")));
  EXPECT_THAT(lines_of(status_table(read(made_up_board(500, 5)), {.all = true})), SizeIs(504));
}

TEST(StatusTable, ManyDifferentProcesses_KeepTheTableShort) {
  StatusBoard board("id", {"train"}, 3000);
  for (int i = 0; i < 3000; ++i) {
    ProcessReport report = in(Kind::kPhase, "part " + std::to_string(i));
    report.process = i;
    board.take(report);
  }
  EXPECT_LT(lines_of(status_table(read(board), {})).size(), kMostRows + 20);
}

TEST(Duration, IsWrittenInTwoUnits) {
  EXPECT_EQ(describe_duration(0.0123), "12 ms");
  EXPECT_EQ(describe_duration(1.25), "1.2 s");
  EXPECT_EQ(describe_duration(59.4), "59 s");
  EXPECT_EQ(describe_duration(59.6), "1 min 0 s");
  EXPECT_EQ(describe_duration(7260), "2 h 1 min");
  EXPECT_EQ(describe_duration(200000), "2 d 7 h");
}

TEST(Prometheus, TheText_ParsesAndHasTheNumbers) {
  StatusBoard board("cafe", {"./train", "a \"b\"\\\n"}, 3);
  board.set_state("running");
  board.take(waiting_report(0));
  ProcessReport odd = own_code_report(1);
  odd.host = "b";
  odd.metrics = R"({"a \"name\"": 1.5e-7, "text": "no number"})";
  board.take(odd);
  std::map<std::string, std::vector<Sample>> by_name;
  for (Sample& sample : parse_prometheus(prometheus_text(*board.view())))
    by_name[sample.name].push_back(std::move(sample));
  EXPECT_EQ(by_name["lockstep_job_info"].at(0).labels["command"], "./train a \"b\"\\\\n");
  double processes = 0;
  for (const Sample& sample : by_name["lockstep_processes"]) processes += sample.value;
  EXPECT_EQ(processes, 3);
  ASSERT_THAT(by_name["lockstep_wait_seconds_total"], SizeIs(2));
  EXPECT_DOUBLE_EQ(by_name["lockstep_wait_seconds_total"][0].value, 40);  // 38, and 2 that go on
  EXPECT_EQ(by_name["lockstep_launches_total"][1].labels["host"], "b");
  EXPECT_EQ(by_name["lockstep_step"].at(0).value, 1200);
  ASSERT_THAT(by_name["lockstep_device_memory_bytes"], SizeIs(4));
  EXPECT_EQ(by_name["lockstep_device_memory_bytes"][1].labels["device"], "1");
  EXPECT_EQ(by_name["lockstep_device_memory_bytes"][1].value, std::exp2(30) * 6);
  EXPECT_EQ(by_name["lockstep_device_memory_limit_bytes"].at(0).value, std::exp2(33));
  ASSERT_THAT(by_name["lockstep_metric"], SizeIs(3));
  EXPECT_EQ(by_name["lockstep_metric"][2].labels["name"], "a \"name\"");
  EXPECT_DOUBLE_EQ(by_name["lockstep_metric"][2].value, 1.5e-7);
}

TEST(HttpAccess, OnlyNamesOfThisHost_AreAllowed) {
  for (const char* host :
       {"localhost", "localhost:80", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8080", "[::1]:80", "[::1]"})
    EXPECT_TRUE(host_allowed(host, {}, false)) << host;
  for (const char* host :
       {"", "evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1",
        "[::1]evil", "[::1", "evil.example:80:localhost"})
    EXPECT_FALSE(host_allowed(host, {}, false)) << host;
  EXPECT_TRUE(host_allowed("Node7:80", {"node7"}, false));
  EXPECT_FALSE(host_allowed("node8:80", {"node7"}, false));
  EXPECT_TRUE(host_allowed("10.0.0.1:80", {}, true));
  EXPECT_TRUE(host_allowed("[fe80::1]:80", {}, true));
  EXPECT_FALSE(host_allowed("evil.example", {}, true));
}

TEST(HttpAccess, TheToken_IsReadFromTheAddressOrTheAuthorization) {
  const std::string token = "0123456789abcdef";
  const auto has = [&](std::string_view target, std::string_view authorization) {
    return has_token(target, authorization, token);
  };
  EXPECT_TRUE(has("/?token=0123456789abcdef", ""));
  EXPECT_TRUE(has("/?a=b&token=0123456789abcdef", ""));
  EXPECT_TRUE(has("/", "Bearer 0123456789abcdef"));
  EXPECT_TRUE(has("/", "bearer 0123456789abcdef"));
  EXPECT_FALSE(has("/", ""));
  EXPECT_FALSE(has("/?token=0123456789abcde", ""));
  EXPECT_FALSE(has("/?token=", ""));
  EXPECT_FALSE(has("/?nottoken=0123456789abcdef", ""));
  EXPECT_FALSE(has("/", "Basic 0123456789abcdef"));
  EXPECT_FALSE(has("/", "Bearer "));
  EXPECT_TRUE(has_token("/", "", ""));
  EXPECT_NE(random_hex(16), random_hex(16));
  EXPECT_TRUE(is_token(random_hex(16)));
  EXPECT_FALSE(is_token("short"));
  EXPECT_FALSE(is_token("0123456789abcde f"));
}

}  // namespace
}  // namespace lockstep::cli
