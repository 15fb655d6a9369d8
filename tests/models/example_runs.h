// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "lockstep/testing/processes.h"

namespace lockstep::test {

/// An example, in so many processes with one device each.
inline std::vector<testing::ProcessResult> run_example(const std::string& program, int processes,
                                                       const std::vector<std::string>& arguments) {
  return testing::run_processes({.count = processes,
                                 .program = program,
                                 .arguments = arguments,
                                 .env = {{"LOCKSTEP_NUM_CPU_DEVICES", "1"}},
                                 .coordinator = true,
                                 .deadline = std::chrono::seconds(240)});
}

/// What process 0 prints; all of them must succeed.
inline std::string printed_by_example(const std::string& program, int processes,
                                      const std::vector<std::string>& arguments) {
  const std::vector<testing::ProcessResult> results = run_example(program, processes, arguments);
  for (const testing::ProcessResult& result : results) EXPECT_EQ(result.exit_code, 0) << result.log;
  return results[0].log;
}

}  // namespace lockstep::test
