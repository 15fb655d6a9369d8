// SPDX-License-Identifier: Apache-2.0
#pragma once

// For tests of this folder that start processes.

#include <string>

#include "lockstep/testing/processes.h"

namespace lockstep::test {

/// Processes that run the child of this name, with a coordinator and this number of CPU devices each.
inline testing::ProcessesOptions job(const std::string& child, int processes, int devices_each) {
  return {.count = processes,
          .child = child,
          .env = {{"LOCKSTEP_NUM_CPU_DEVICES", std::to_string(devices_each)}},
          .coordinator = true};
}

}  // namespace lockstep::test
