// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <map>
#include <string>
#include <thread>

#include "cli/testing/opened_trace.h"
#include "cli/testing/tool.h"
#include "lockstep/testing/process_logs.h"
#include "lockstep/testing/temporary_folder.h"

// Tests that do what docs/slow.md advises, with jobs that are slow for each of its reasons.

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(SlowJob, ThatCompilesAgainAndAgain_SaysWhy) {
  const auto result =
      lockstep({"run", "-n", "2", "--", LOCKSTEP_STALL_PROCESS, "shape", "-1", "-1", "0", "4"},
               {{"LOCKSTEP_LOG_COMPILES", "1"}});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* process : {"process 0 of 2", "process 1 of 2"}) {
    EXPECT_THAT(result.log,
                ContainsRegex(std::string(process) +
                              ".*is compiled: argument 0: f32.6. was f32.5., in the most similar"));
  }
}

struct Slow {
  const char* fault;  ///< In each step of process 1, for 0.4 s: long beside waits for a core.
  const char* slices;
};

class SlowJobOf4 : public ::testing::TestWithParam<Slow> {
 protected:
  // How long a process was in such slices in all, a part of the trace's time.
  static double part(const OpenedTrace& trace, const std::string& process, const std::string& kind) {
    const TraceSlice whole = trace.on("lockstep trace").at(0);
    double in_all = 0;
    for (const TraceSlice& slice : trace.slices)
      if (slice.process.starts_with(process + " ") && slice.is(kind))
        in_all += static_cast<double>(slice.end - slice.begin);
    return in_all / static_cast<double>(whole.end - whole.begin);
  }
};

TEST_P(SlowJobOf4, StatusNamesTheProcess_AndTheTraceWhatItDoes) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.path() / "trace.pftrace";
  const testing::Variables env = {{"LOCKSTEP_SOCKET_DIR", folder.path() / "sockets"},
                                  {"STALL_FOLDER", folder.path() / "checkpoints"}};
  testing::Processes job(tool(
      {"run", "-n", "4", "--", LOCKSTEP_STALL_PROCESS, GetParam().fault, "1", "-1", "0.4", "1000000"}, env));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(100);
  std::string words;
  const auto names_it =
      ContainsRegex("process 1 waits [0-9]+% of its time, the others [0-9]+%: they wait for it");
  while (!::testing::Matches(names_it)(words) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    words = lockstep({"status"}, env).log;
  }
  EXPECT_THAT(words, names_it);

  EXPECT_EQ(lockstep({"trace", "--seconds", "1.5", "-o", file}, env).exit_code, 0);
  const OpenedTrace trace(testing::read_file(file));
  for (const char* other : {"process 0", "process 2", "process 3"}) {
    const auto waits = [&](const char* process) {
      return part(trace, process, "wait") + part(trace, process, "answer");
    };
    EXPECT_GT(waits(other), 0.3) << other;
    EXPECT_GT(waits(other), waits("process 1") + 0.2) << other;
  }
  if (GetParam().slices != nullptr) {
    EXPECT_GT(part(trace, "process 1", GetParam().slices), 0.3);
  } else {
    EXPECT_LT(part(trace, "process 1", "launch"), 0.5);
  }
  job.kill(0, SIGTERM);
  job.wait(0);
}

INSTANTIATE_TEST_SUITE_P(Each, SlowJobOf4,
                         ::testing::Values(Slow{"sleep", nullptr}, Slow{"input", "input"},
                                           Slow{"save", "save"}),
                         [](const auto& of) { return std::string(of.param.fault); });

}  // namespace
}  // namespace lockstep::cli
