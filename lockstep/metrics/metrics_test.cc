// SPDX-License-Identifier: Apache-2.0
#include "lockstep/metrics/metrics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lockstep/array/device_put.h"
#include "lockstep/base/text.h"
#include "lockstep/data/tfrecord.h"
#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/jit.h"
#include "lockstep/metrics/appended_file.h"
#include "lockstep/metrics/event_file.h"
#include "lockstep/ops/ops.h"
#include "lockstep/pjrt/plugin.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/storage/test_urls.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/outside_texts.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/temporary_folder.h"
#include "tensorboard.pb.h"

namespace lockstep::metrics {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::Processes;
using testing::run_processes;
using Json = nlohmann::json;

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return std::move(text).str();
}

/// The lines of a JSONL file, each of which must be whole.
std::vector<Json> lines_of(const fs::path& path) {
  const std::string text = text_of(path);
  EXPECT_TRUE(text.empty() || text.back() == '\n') << path;
  std::vector<Json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) found.push_back(entry.path());
  }
  return found;
}

/// The events of a file, whose checksums tfrecord() checks.
std::vector<Event> events_of(const fs::path& path) {
  testing::TemporaryFolder index;
  const data::SourcePtr records = data::tfrecord(path.string(), {.folder = index.path().string()});
  std::vector<Event> events;
  for (std::uint64_t i = 0; i < records->size(); ++i) {
    const data::Record record = records->read(i);
    const auto& bytes = record.at("record").bytes;
    Event& event = events.emplace_back();
    EXPECT_TRUE(event.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  }
  return events;
}

/// The kernel may end a write at a page's end where the process is killed: a copy without what it left of a
/// line or of an event.
fs::path whole_part_of(const fs::path& path) {
  const std::string text = text_of(path);
  std::size_t whole = 0;
  if (path.extension() == ".jsonl") {
    whole = text.rfind('\n') + 1;
  } else {
    constexpr std::size_t kAround = 8 + 4 + 4;  // the length, and two checksums
    for (std::uint64_t length = 0; whole + kAround <= text.size(); whole += kAround + length) {
      std::memcpy(&length, text.data() + whole, sizeof length);
      if (length > text.size() - whole - kAround) break;
    }
  }
  const fs::path copy = path.parent_path() / ("whole" + path.extension().string());
  std::ofstream(copy, std::ios::binary) << text.substr(0, whole);
  return copy;
}

TEST(LineOf, NonFiniteValues_AreStrings) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Entry entry{7, 2.5, {{"loss", 0.5}, {"a \"b\"", std::nan("")}, {"c", infinity}, {"d", -infinity}}};
  EXPECT_EQ(
      line_of(entry, 3, 1),
      "{\"time\":2.5,\"process\":3,\"attempt\":1,\"step\":7,\"values\":{\"loss\":0.5,\"a \\\"b\\\"\":\"NaN\","
      "\"c\":\"Infinity\",\"d\":\"-Infinity\"}}\n");
}

TEST(AppendedFile, AnUnfinishedLine_IsCutOff_AndNothingElse) {
  testing::TemporaryFolder folder;
  const fs::path path = folder.path() / "new" / "lines";
  AppendedFile(path, true).append("one\n");
  const std::string long_line(10000, 'x');
  std::ofstream(path, std::ios::app) << long_line;
  AppendedFile(path, true).append("two\n");
  EXPECT_EQ(text_of(path), "one\ntwo\n");
  std::ofstream(path, std::ios::trunc) << long_line;
  AppendedFile(path, true).append("three\n");
  EXPECT_EQ(text_of(path), "three\n");
}

/// Process 0 of a job writes numbers and arrays, of which one is donated before it is read.
LOCKSTEP_CHILD(logs) {
  initialize();
  const Mesh mesh = make_mesh({{"i", device_count()}});
  auto step = jit(
      [](Array w) {
        Array next = w * 0.5f;
        return std::pair(next, sum(next));
      },
      {.donate_argnums = {0}});
  Array w = device_put(ones({4}), NamedSharding(mesh, P("i")));
  for (int i = 0; i < 3; ++i) {
    auto [next, total] = step(w);
    log(i, {{"total", total}, {"lr", 1e-3}, {"count", astype(total, int32)}, {"on", true}});
    total.delete_();
    w = next;
  }
  const std::optional<Entry> last = latest();
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->step, 2);
  EXPECT_THAT(last->values, ElementsAre(std::pair("total", 0.5), std::pair("lr", 1e-3),
                                        std::pair("count", 0.), std::pair("on", 1.)));
}

TEST(MetricsLog, ProcessZeroWritesLinesAndEvents_AndAllKeepTheHistory) {
  testing::TemporaryFolder folder;
  for (const auto& result :
       run_processes({.count = 2,
       .child = "logs",
       .env = {{"LOCKSTEP_NUM_CPU_DEVICES", "2"}, {"LOCKSTEP_LOG_DIR", folder.path().string()}},
       .coordinator = true})) {
    EXPECT_EQ(result.exit_code, 0);
  }
  EXPECT_FALSE(fs::exists(folder.path() / "process-1.metrics.jsonl"));
  const std::vector<Json> lines = lines_of(folder.path() / "process-0.metrics.jsonl");
  ASSERT_EQ(lines.size(), 3);
  for (int i = 0; i < 3; ++i) {
    const Json& line = lines[static_cast<std::size_t>(i)];
    EXPECT_EQ(line["step"], i);
    EXPECT_EQ(line["process"], 0);
    EXPECT_EQ(line["attempt"], 0);
    EXPECT_GT(line["time"].get<double>(), 1.7e9);
    EXPECT_EQ(line["values"]["total"], 2.0 / (1 << i));
    EXPECT_EQ(line["values"]["lr"], 1e-3);
  }
  const auto files = event_files(folder.path());
  ASSERT_EQ(files.size(), 1);
  const std::vector<Event> events = events_of(files.front());
  ASSERT_EQ(events.size(), 4);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[3].step(), 2);
  ASSERT_EQ(events[3].summary().value_size(), 4);
  EXPECT_EQ(events[3].summary().value(0).tag(), "total");
  EXPECT_EQ(events[3].summary().value(0).simple_value(), 0.5f);
  EXPECT_TRUE(events[3].summary().value(2).has_simple_value()) << "a zero is written, too";
}

LOCKSTEP_CHILD(logs_on_all) {
  initialize();
  configure({.all_processes = true});
  log(5, {{"loss", testing::child_index()}});
}

TEST(MetricsLog, IfAskedFor_AllProcessesWrite_AndARestartContinues) {
  testing::TemporaryFolder folder;
  for (const char* attempt : {"0", "1"}) {
    for (const auto& result :
         run_processes({.count = 2,
         .child = "logs_on_all",
         .env = {{"LOCKSTEP_LOG_DIR", folder.path().string()}, {"LOCKSTEP_ATTEMPT", attempt}},
         .coordinator = std::string(attempt) == "0"})) {
      EXPECT_EQ(result.exit_code, 0);
    }
    if (std::string(attempt) == "0") {
      for (int process : {0, 1}) {
        const auto lines = lines_of(folder.path() / fmt::format("process-{}.metrics.jsonl", process));
        ASSERT_EQ(lines.size(), 1);
        EXPECT_EQ(lines[0]["values"]["loss"], process);
        const auto files = event_files(folder.path() / fmt::format("process-{}", process));
        ASSERT_EQ(files.size(), 1);
        EXPECT_EQ(events_of(files.front()).size(), 2) << "no restart";
      }
    }
  }
  // The second time each was a job of its own: both are its process 0.
  const auto lines = lines_of(folder.path() / "process-0.metrics.jsonl");
  ASSERT_EQ(lines.size(), 3);
  EXPECT_EQ(lines[1]["attempt"], 1);
  int restarts = 0;
  for (const fs::path& file : event_files(folder.path() / "process-0")) {
    const std::vector<Event> events = events_of(file);
    if (events.size() != 3) continue;
    ++restarts;
    EXPECT_EQ(events[1].session_log().status(), SessionLog::START);
    EXPECT_EQ(events[1].step(), 5);
  }
  EXPECT_EQ(restarts, 2);
}

/// On a plugin whose programs run on after the call: the one that shows what GPUs do on the CPU.
LOCKSTEP_CHILD(logs_what_is_not_computed_yet) {
  std::vector<std::pair<std::int64_t, double>> seen;
  on_entry([&](const Entry& entry) { seen.emplace_back(entry.step, entry.values.front().second); });
  auto step = jit([](Array w) {
    Array next = fori_loop(
        0, 20, [](Array, Array c) { return c + 0 * sum(matmul(c, c)); }, w + 1);
    return std::pair(next, mean(next));
  });
  Array w = zeros({64, 64});
  const auto steps = static_cast<std::int64_t>(kMostUnread) + 10;
  for (std::int64_t i = 0; i < steps; ++i) {
    auto [next, average] = step(w);
    log(i, {{"average", average}});
    average.delete_();
    w = next;
  }
  flush();
  ASSERT_EQ(std::ssize(seen), steps);
  for (std::int64_t i = 0; i < steps; ++i)
    EXPECT_EQ(seen[static_cast<std::size_t>(i)], std::pair(i, static_cast<double>(i + 1)));
}

TEST(MetricsLog, ValuesComputedLater_AreLoggedInOrder) {
  const auto result = run_processes({.child = "logs_what_is_not_computed_yet",
                                     .env = {{"GPU_ON_CPU_BEHIND", pjrt::find_plugin()},
                                             {"LOCKSTEP_PJRT_PLUGIN", GPU_ON_CPU_PLUGIN},
                                             {"NPROC", "2"}}})[0];
  EXPECT_EQ(result.exit_code, 0);
}

LOCKSTEP_CHILD(logs_under_any_name) {
  initialize();
  std::int64_t step = 0;
  for (const auto& [what, text] : testing::outside_texts()) {
    SCOPED_TRACE(what);
    if (text.empty()) {
      EXPECT_THAT(error_of<Error>([&, text = text] {
                    log(step, {{text, 1.0}});
                  }),
                  HasSubstr("a name is empty"));
    } else {
      log(step, {{text, 1.0}});
      EXPECT_EQ(latest()->values[0].first, shown(text));
    }
    ++step;
  }
  flush();
}

// Each name is in both files as it is shown, and both can be read.
TEST(MetricsLog, AnyName_IsWrittenReadably) {
  testing::TemporaryFolder folder;
  for (const auto& result :
       run_processes({.child = "logs_under_any_name", .env = {{"LOCKSTEP_LOG_DIR", folder.path()}}}))
    EXPECT_EQ(result.exit_code, 0);
  const auto lines = lines_of(folder.path() / "process-0.metrics.jsonl");
  const auto events = events_of(event_files(folder.path()).at(0));
  const auto texts = testing::outside_texts();
  ASSERT_EQ(lines.size(), texts.size() - 1);  // the first is empty
  ASSERT_EQ(events.size(), lines.size() + 1);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["values"].items().begin().key(), shown(texts[i + 1].text));
    EXPECT_EQ(events[i + 1].summary().value(0).tag(), shown(texts[i + 1].text));
  }
}

LOCKSTEP_CHILD(logs_for_ever) {
  for (int step = 0;; ++step) {
    log(step,
        {{"a value with quite a long name, so that lines cross pages", step}, {"loss", 1.0 / (step + 1)}});
    if (step == 10) testing::say("going");
  }
}

TEST(MetricsLog, AKilledProcess_LeavesWholeLines_AndTheNextAppends) {
  testing::TemporaryFolder folder;
  std::size_t before = 0;
  for (int round = 0; round < 3; ++round) {
    Processes job({.child = "logs_for_ever", .env = {{"LOCKSTEP_LOG_DIR", folder.path().string()}}});
    job.wait_for_line(0, "going");
    job.kill(0, SIGKILL);
    EXPECT_EQ(job.wait(0).signal, SIGKILL);
    const std::vector<Json> lines = lines_of(whole_part_of(folder.path() / "process-0.metrics.jsonl"));
    ASSERT_GT(lines.size(), before + 10);
    EXPECT_EQ(lines[before]["step"], 0);
    before = lines.size();
  }
  for (const fs::path& file : event_files(folder.path()))
    EXPECT_GT(events_of(whole_part_of(file)).size(), 10);
}

/// A file of at most 4,000 bytes stands for a full disk: both refuse the rest of a write.
LOCKSTEP_CHILD(logs_more_than_there_is_room_for) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{4000, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  for (int step = 0; step < 100; ++step) log(step, {{"loss", step}});
  EXPECT_EQ(latest()->step, 99);
  setrlimit(RLIMIT_FSIZE, &limit);
  log(100, {{"loss", 100}});
}

TEST(MetricsLog, NoSpaceLeft_IsOneWarning_AndTheProgramGoesOn) {
  testing::TemporaryFolder folder;
  const auto result = run_processes({.child = "logs_more_than_there_is_room_for",
                                     .env = {{"LOCKSTEP_LOG_DIR", folder.path().string()}}})[0];
  EXPECT_EQ(result.exit_code, 0);
  const fs::path path = folder.path() / "process-0.metrics.jsonl";
  const std::vector<Json> lines = lines_of(path);
  EXPECT_EQ(lines.back()["step"], 100);
  const std::string left_out = std::to_string(101 - lines.size());
  EXPECT_THAT(result.log, AllOf(HasSubstr("metrics cannot be written: " + path.string() + ": File too large"),
                                HasSubstr(path.string() + " is written again; " + left_out + " calls")));
  std::size_t warnings = 0;
  for (std::size_t at = 0; (at = result.log.find("cannot be written", at)) != std::string::npos; ++at)
    ++warnings;
  EXPECT_EQ(warnings, 2) << "one for each file";
  const std::vector<Event> events = events_of(event_files(folder.path()).front());
  EXPECT_EQ(events.back().step(), 100);
}

LOCKSTEP_CHILD(logs_after_refusals) {
  storage::expect_refused("configure", storage::bad_optional_folders(),
                          [](const std::string& url) { configure({.folder = url}); });
  log(1, {{"loss", 1}});
  flush();
  EXPECT_TRUE(fs::is_empty(".")) << "a refused folder is used";
}

TEST(MetricsLog, AFolderInAnObjectStore_IsRefusedBeforeAnythingIsWritten) {
  const auto refused = run_processes({.child = "logs_after_refusals"})[0];
  EXPECT_EQ(refused.exit_code, 0) << refused.log;
  const auto result =
      run_processes({.child = "logs_twice", .env = {{"LOCKSTEP_LOG_DIR", "s3://bucket/run"}}})[0];
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.log,
              HasSubstr("[metrics::log] the folder of metrics: \"s3://bucket/run\" is in an object"));
}

TEST(MetricsLog, AFolderThatCannotBeMade_IsAWarning) {
  const auto result =
      run_processes({.child = "logs_twice", .env = {{"LOCKSTEP_LOG_DIR", "/dev/null/metrics"}}})[0];
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log,
              HasSubstr("metrics cannot be written: /dev/null/metrics/process-0.metrics.jsonl: Not a "
                        "directory. The program goes on"));
}

LOCKSTEP_CHILD(logs_twice) {
  std::vector<std::int64_t> steps;
  on_entry([&](const Entry& entry) { steps.push_back(entry.step); });
  log(1, {{"loss", 1}});
  log(2, {{"loss", 2}});
  EXPECT_THAT(steps, ElementsAre(1, 2));
}

TEST(MetricsLog, WithoutAFolder_NothingIsWritten_AndErrorsNameTheLine) {
  ASSERT_EQ(std::getenv("LOCKSTEP_LOG_DIR"), nullptr);
  log(1, {{"loss", 0.25}, {"nan", std::nan("")}});
  EXPECT_EQ(latest()->values.front(), std::pair(std::string("loss"), 0.25));
  flush();
  EXPECT_THAT(
      error_of<ShapeError>([] {
        log(2, {{"loss", ones({2})}});
      }),
      AllOf(HasSubstr("expected a number for 'loss', got f32[2] (at metrics_test.cc:"), HasSubstr("mean")));
  EXPECT_THAT(error_of<DTypeError>([] {
                log(2, {{"loss", ones({}, complex64)}});
              }),
              HasSubstr("real number"));
  EXPECT_THAT(error_of<Error>([] { log(2, {{"a", 1}, {"a", 2}}); }), HasSubstr("'a' is given twice"));
  EXPECT_THAT(error_of<Error>([] { log(2, {{"", 1}}); }), HasSubstr("a name is empty"));
  EXPECT_THAT(error_of<TraceError>([] {
                jit([](Array x) {
                  log(2, {{"loss", x}});
                  return x;
                })(1.f);
              }),
              HasSubstr("[metrics::log]"));
  EXPECT_THAT(error_of<Error>([] { configure({.folder = "elsewhere"}); }), HasSubstr("after metrics::log"));
  EXPECT_EQ(latest()->step, 1) << "a call that throws leaves nothing";
}

}  // namespace
}  // namespace lockstep::metrics
