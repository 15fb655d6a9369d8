// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/jit/test_devices.h"

namespace lockstep::test {

/// The collectives of a jitted function, "2 x all-reduce of 64 B", except those of 4 bytes or less.
template <class F, class... Args>
std::vector<std::string> exchanges(const F& function, const Args&... args) {
  std::vector<std::string> all;
  for (const auto& line : function.lower(args...).communication()) {
    if (line.bytes <= 4) continue;
    all.push_back(std::to_string(line.times.value_or(1)) + " x " + line.kind + " of " +
                  std::to_string(line.bytes) + " B");
  }
  return all;
}

}  // namespace lockstep::test
