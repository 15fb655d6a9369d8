// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

namespace lockstep::testing {

/// Whether the tests walk all that they can: ./test --long, which sets LOCKSTEP_LONG_TESTS (docs/testing.md).
inline bool long_tests() { return std::getenv("LOCKSTEP_LONG_TESTS") != nullptr; }

/// How many cases a test draws, or of how many it takes one: what the variable says, else `in_long` in a long
/// run, else `usual`.
inline int rounds(const char* variable, int usual, int in_long) {
  const char* given = std::getenv(variable);
  return given != nullptr ? std::atoi(given) : long_tests() ? in_long : usual;
}
inline int rounds(const char* variable, int usual) { return rounds(variable, usual, usual); }

}  // namespace lockstep::testing
