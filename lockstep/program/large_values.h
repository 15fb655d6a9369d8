// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/program/program.h"

namespace lockstep::ir {

/// A value that uses much of a device's memory.
struct LargeValue {
  std::int64_t bytes = 0;
  std::string type;       ///< "f32[1024,4096]", of each device's part
  std::string operation;  ///< the operation that made it, or "argument 3"
  std::string site;       ///< the user's line; empty for arguments
};

/// The largest values, by each device's part, that the program and the programs inside its equations compute
/// or get: at most 8, in descending order. A line that makes many equal values is reported once.
std::vector<LargeValue> largest_values(const Program& program);

}  // namespace lockstep::ir
