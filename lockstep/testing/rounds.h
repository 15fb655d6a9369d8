// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

namespace lockstep::testing {

/// How many cases a test draws: what the variable says, else `usual` (docs/testing.md).
inline int rounds(const char* variable, int usual) {
  const char* given = std::getenv(variable);
  return given != nullptr ? std::atoi(given) : usual;
}

}  // namespace lockstep::testing
