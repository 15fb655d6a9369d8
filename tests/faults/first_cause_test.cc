// SPDX-License-Identifier: Apache-2.0
// Whom `lockstep run` blames when the processes of a program diverge, or one leaves the others: in its first
// and its last line, however they end because of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lockstep/lockstep.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "lockstep/testing/processes.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_processes;

/// Status 3 after the error was caught; "uncaught" lets it go.
LOCKSTEP_CHILD(the_last_diverges) {
  initialize();
  const std::string how = testing::child_arguments().at(0);
  const bool last = process_index() == process_count() - 1;
  auto run = [&] {
    if (how == "assert_equal") {
      multihost::assert_equal(array({last ? 2.f : 1.f}));
    } else {
      pmap([&](Array x) { return last ? pmax(x, "i") : psum(x, "i"); })(ones({1, 4})).block_until_ready();
    }
  };
  if (how == "uncaught") std::thread(run).join();
  try {
    run();
  } catch (const DivergenceError&) {
    std::_Exit(last ? 0 : 3);
  }
}

/// The launcher's lines on the job's end.
std::string run_job(int processes, const std::string& child, const std::string& how) {
  std::vector<std::string> arguments = {"run", "-n", std::to_string(processes), "--no-bind", "--"};
  const std::vector<std::string> command = testing::command_of_child(child, {how});
  arguments.insert(arguments.end(), command.begin(), command.end());
  const auto result = run_processes({.program = LOCKSTEP_TOOL, .arguments = arguments})[0];
  EXPECT_NE(result.exit_code, 0);
  std::string own;
  for (std::size_t at = 0; (at = result.log.find("lockstep: ", at)) != result.log.npos; ++at)
    own += result.log.substr(at, result.log.find('\n', at) - at) + "\n";
  return own;
}

TEST(FirstCause, ADivergenceCaughtOrNot_NamesTheMinority) {
  for (const char* how : {"caught", "uncaught", "assert_equal"}) {
    const std::string lines = run_job(3, "the_last_diverges", how);
    EXPECT_THAT(lines, AllOf(::testing::ContainsRegex("^lockstep: (the job failed: )?process 2 \\(host "),
                             HasSubstr("lockstep: the job failed: process 2 (host "),
                             ::testing::ContainsRegex("job failed: process 2 .*\\) diverged: ")))
        << how;
  }
}

TEST(FirstCause, ADivergenceOfTwoProcesses_NamesBoth) {
  EXPECT_THAT(
      run_job(2, "the_last_diverges", "caught"),
      ::testing::ContainsRegex("job failed: processes 0 \\(host .*\\), 1 \\(host .*\\) diverged: process "
                               "0 of 2 is in .* but process 1 of 2 in "));
}

LOCKSTEP_CHILD(the_last_returns_while_others_wait) {
  initialize();
  if (process_index() == process_count() - 1) return;
  pmap([](Array x) { return psum(x, "i"); })(ones({1, 4})).block_until_ready();
}

TEST(FirstCause, AProcessThatLeavesEarly_IsNamed) {
  EXPECT_THAT(run_job(2, "the_last_returns_while_others_wait", ""),
              ::testing::ContainsRegex("job failed: process 1 \\(host .*\\) left the job early: process 0 "));
}

}  // namespace
}  // namespace lockstep
