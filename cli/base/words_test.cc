// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "cli/base/output.h"
#include "cli/base/words.h"
#include "cli/plan/plan_report.h"
#include "cli/stacks/print.h"
#include "cli/status/status_json.h"
#include "cli/status/status_table.h"
#include "cli/testing/reports.h"
#include "cli/testing/tool.h"
#include "lockstep/base/text.h"
#include "lockstep/testing/outside_texts.h"
#include "lockstep/testing/process_logs.h"
#include "lockstep/testing/temporary_folder.h"
#include "lockstep/watch/phase.h"
#include "lockstep/watch/recorder.h"

// Each subcommand with a hostile text in every place that takes one: what the tool writes of it must not move
// a terminal's cursor, set its title, turn text around or look like a line of the tool.

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::outside_texts;

const std::string kHostile =
    "w\x1b]0;title\x07\x1b[2J\x1b[31m\rlockstep: forged\nlockstep: forged\x7f\xc2\x9b"
    "2J\u202edlo\u2066\u061c\u200f\u2028x";

/// The tool's own lines. `text`: what was given to it.
void expect_harmless(const std::string& written, const std::string& text, const std::string& where) {
  EXPECT_EQ(shown_lines(written), written) << where << " with " << shown(text, 200);
  for (const std::string& line : lines_of(written))
    EXPECT_FALSE(line.starts_with("lockstep: forged")) << where << ": " << shown(written, 4000);
}

TEST(ToolOutput, FurtherLinesAreIndented_AndControlCharactersEscaped) {
  EXPECT_EQ(own_line("lockstep", "a\nlockstep: b\n  c\r\x1b[2J"),
            "lockstep: a\n  lockstep: b\n  c\\r\\x1b[2J\n");
  EXPECT_EQ(own_line("lockstep", ""), "lockstep: \n");
  for (const auto& [what, text] : outside_texts()) {
    SCOPED_TRACE(what);
    expect_harmless(own_line("lockstep", text), text, "own_line");
  }
}

TEST(ToolOutput, Columns_AreAlignedByDisplayWidth) {
  EXPECT_EQ(width_of("abc"), 3u);
  EXPECT_EQ(width_of("é"), 1u);
  EXPECT_EQ(width_of("中文"), 4u);
  EXPECT_EQ(width_of("e\u0301"), 1u);
  EXPECT_EQ(aligned({{"中", "1"}, {"abc", "22"}, {"\x1b", "3"}}, "lr"), "中     1\nabc   22\n\\x1b   3\n");
  EXPECT_EQ(fit("中文x", 3), "中");
}

TEST(ToolOutput, LauncherOutput_IsEscaped) {
  for (const auto& [what, text] : outside_texts()) {
    SCOPED_TRACE(what);
    std::string written;
    const OutputTarget target{.write = [&](std::string_view more) { written += more; }};
    Output output(1, {}, target, target);
    output.say("waiting for 11 s: " + text);
    expect_harmless(written, text, "the launcher");
  }
}

TEST(ToolOutput, StatusOutput_IsEscaped_AndTheTableKeepsItsWidth) {
  auto texts = outside_texts();
  texts.push_back({"hostile", kHostile});
  for (const auto& [what, text] : texts) {
    SCOPED_TRACE(what);
    ReadView read{.view = *made_up_board(3).view(), .stalls = {text}, .num_processes = 3};
    read.view.job_id = read.view.command = read.view.host = read.view.state = read.view.failure = text;
    for (ProcessRow& row : read.view.processes) row.host = row.words = row.detail = row.site = text;
    read.view.processes[0].metrics = nlohmann::json{{shown(text), shown(text)}}.dump();
    expect_harmless(status_table(read, {.all = true}), text, "status");
    expect_harmless(jobs_table({read, read}, {}), text, "status of several jobs");
    const std::string json = to_text(to_json(read.view, true));
    expect_harmless(json, text, "status --json");
    const auto parsed = nlohmann::json::parse(json);
    if (is_utf8(text)) {
      EXPECT_EQ(parsed["job"]["failure"], text);
    }
    read.view.job_id = "cafe", read.view.state = "running";  // which are never cut
    const std::vector<std::string> lines = lines_of(jobs_table({read, read}, {.columns = 80}));
    EXPECT_EQ(lines.size(), 3u);
    for (const std::string& line : lines) EXPECT_LE(width_of(line), 80u) << line;
  }
}

TEST(ToolOutput, PlanOutput_IsEscaped) {
  for (const auto& [what, text] : outside_texts()) {
    SCOPED_TRACE(what);
    PlanReport plan{.topology = text, .device_kind = text, .ended_at = text, .devices = 1, .hosts = 1};
    for (int i = 0; i < 2; ++i) {
      plan.computations.push_back({.name = text, .site = text, .mesh = text, .does_not_fit = text + "x"});
      plan.computations.back().collectives.push_back({.kind = text, .axes = text, .site = text});
      plan.computations.back().largest.push_back({1, text, text, text});
    }
    expect_harmless(plan_text(plan), text, "plan");
    expect_harmless(plan_svg(plan), text, "plan --svg");
  }
}

TEST(ToolOutput, StacksOutput_IsEscaped) {
  for (const auto& [what, text] : outside_texts()) {
    SCOPED_TRACE(what);
    MergedStacks merged{.num_processes = 2};
    const ThreadCounts both = {{0, 1}, {1, 1}};
    merged.main.threads = both;
    merged.main.callees.push_back({.text = "f" + text, .module = text, .place = text, .threads = {{0, 1}}});
    merged.main.callees.push_back({.kind = StackNode::Kind::kNameless, .module = text, .threads = {{1, 1}}});
    merged.main.callees[0].callees.push_back(
        {.kind = StackNode::Kind::kEnd, .text = text, .threads = {{0, 1}}});
    merged.others = {.threads = {{0, 1}}};
    merged.others.callees.push_back({.kind = StackNode::Kind::kUnknown, .text = text, .threads = {{0, 1}}});
    merged.idle[text] = both;
    ProcessStacks refused{.pid = 7, .refused = text};
    refused.threads.push_back({.main = true});
    refused.threads[0].state.name = text;
    merged.refused.push_back({1, refused});
    expect_harmless(print_stacks(merged, {.columns = 80}), text, "stacks");
  }
}

/// A checkpoint as another one may give it.
void write_safetensors(const fs::path& file, const std::string& name) {
  const nlohmann::json header = {{"__metadata__", {{name, name}}},
                                 {name, {{"dtype", "F32"}, {"shape", {2}}, {"data_offsets", {0, 8}}}}};
  const std::string text = header.dump();
  const std::uint64_t size = text.size();
  std::string bytes(sizeof size, '\0');
  std::memcpy(bytes.data(), &size, sizeof size);
  std::ofstream(file) << bytes << text << std::string(8, '\0');
}

LOCKSTEP_CHILD(fails_with_hostile_words) {
  auto client = join();
  watch::set_process(client->process_id(), 2);
  const Phase phase(kHostile);
  if (client->process_id() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // until it was looked at
    client->report_own_error(kHostile);
    std::exit(1);
  }
  wait_in_vain(*client);
}

TEST(ToolOutput, EachSubcommandsOutput_WithHostileNames_IsEscaped) {
  const testing::TemporaryFolder folder;
  const std::string utf8 = kHostile, bytes = kHostile + "\xe9";
  const fs::path named = folder.path() / ("n" + bytes);
  fs::create_directory(named);
  write_safetensors(folder.path() / "a.safetensors", utf8);
  write_safetensors(folder.path() / "b.safetensors", utf8 + "2");
  write_safetensors(named / "c.safetensors", utf8);
  std::ofstream(named / "damaged.safetensors") << "x";
  const std::string a = folder.path() / "a.safetensors", b = folder.path() / "b.safetensors";
  const std::string rsh =
      write_script(folder.path() / "rsh", "#!/bin/sh\nprintf '%s\\n' \"$WORDS\" \"$WORDS\" >&2\nexit 7\n");
  const std::string agent =
      write_script(folder.path() / "agent",
                   "#!/bin/sh\nprintf 'lockstep-agent\\t5\\t1\\t127.0.0.1\\nremark\\ta\\\\nlockstep: "
                   "forged\\033[2J\\n%s\\n' \"$WORDS\"\n");
  const std::string name = "x" + bytes;
  const testing::Variables env = {{"LOCKSTEP_SOCKET_DIR", folder.path() / "sockets"}, {"WORDS", "y" + bytes}};
  const std::vector<Words> commands = {
      {bytes},
      {"run", "--" + bytes},
      {"run", "-n", bytes, "--", "true"},
      {"run", "-n", "1", "--", name},
      {"run", "-n", "1", "-v", "--report-dir", named / "reports", "--", "/bin/sh", "-c", "exit 3", name},
      {"run", "-n", "1", "--log-dir", named / "damaged.safetensors", "--", "true"},
      {"run", "-n", "1", "--trace", named / "none" / name, "--", "true"},
      {"run", "-n", "1", "--show-output", bytes, "--", "true"},
      {"run", "--hostfile", name, "--", "true"},
      {"run", "--hosts", "a" + bytes, "--", "true"},
      {"run", "--hosts", "a:1,h\0337\x7f\u202e\xe9:1", "--rsh", rsh, "--", "true"},
      {"run", "--hosts", "a:1", "--rsh", agent, "--", "true"},
      {"run", "--hosts", "a:1", "--rsh", name, "--", "true"},
      {"run", "-n", "1", "--interface", bytes, "--hosts", "a:1", "--rsh", rsh, "--", "true"},
      {"run", "-n", "1", "--coordinator-address", bytes, "--", "true"},
      {"coordinator", "--num-processes", "1", "--bind", bytes},
      {"status", bytes},
      {"status", "--" + bytes},
      {"stacks", bytes},
      {"stacks", "--pid", bytes},
      {"trace", "--seconds", "1", "-o", named / "none" / name, bytes},
      {"plan", "--topology", bytes, "--", "/bin/true"},
      {"plan", "--topology", "cpu:1x1", "--", name},
      {"plan", "--topology", "cpu:1x1", "--search", bytes, "--", "/bin/sh", "-c",
       "echo \"$WORDS\" >&2; exit 1"},
      Words{"run", "-n", "2", "-v", "--show-output", "none", "--stall-warning", "0.1", "--report-dir",
            named / "reports", "--"} +
          testing::command_of_child("fails_with_hostile_words", {bytes}),
      {"ckpt", "ls", a},
      {"ckpt", "ls", named / "c.safetensors"},
      {"ckpt", "ls", named / "damaged.safetensors"},
      {"ckpt", "ls", named},
      {"ckpt", "cat", a, utf8},
      {"ckpt", "cat", a, utf8 + "not there"},
      {
          "ckpt",
          "verify",
          a,
      },
      {"ckpt", "verify", named / "c.safetensors"},
      {"ckpt", "diff", a, b},
      {"ckpt", "diff", a, a},
      {"ckpt", "export", a, named / "exported"},
      {"ckpt", "export", a, named / "exported"},
      {"ckpt", "rm", named},
      {"ckpt", "rm", "--attempts", named / "none"},
      {bytes + "://bucket/x", "ckpt"},
      {"ckpt", "ls", bytes + "://bucket/x"},
      {"host-agent", bytes},
      {"end-group", bytes},
  };
  for (const Words& command : commands) {
    const auto result = lockstep(command, env);
    std::string where;
    for (const std::string& word : command) where += shown(word, 80) + " ";
    expect_harmless(result.log, bytes, where);
  }
  EXPECT_THAT(lockstep({"ckpt", "ls", a}, env).log, HasSubstr("\\x1b]0;title\\x07"));
}

}  // namespace
}  // namespace lockstep::cli
