// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/program/program.h"

namespace lockstep::transforms {

/// The values to look for in floating and complex arrays.
struct NonFinite {
  bool nans = true, infs = false;
};

/// The program with one more output at the end: a bool scalar, the same on all devices, that is true if one
/// of its inexact outputs contains such a value. nullopt if no output is inexact.
std::optional<ir::Program> with_check(const ir::Program& program, NonFinite what);

/// A program that finds the operation that made the first such value, also within loops, branches and
/// shard_map.
///   inputs    the program's
///   output    an i32 scalar, the same on all devices: an index in `operations`; or operations.size() + i, if
///             none of them made it and input i contained one; or kNowhere
/// An operation makes one if one of its results contains one and none of its operands does. The first one is
/// the first in the order of execution; if several devices make one under shard_map, it is the first in the
/// program. debug::print and debug::check_finite are removed.
struct NonFiniteSearch {
  static constexpr std::int32_t kNowhere = 0x7fffffff;

  struct Operation {
    std::string primitive;
    std::string result;  ///< "f32[4]"
    CallSite site;       ///< the user's line
    std::vector<std::string>
        within;  ///< the loops and branches around it, from the outside: "scan at a.cc:7"
  };

  ir::Program program;
  std::vector<Operation> operations;
};
NonFiniteSearch search_for_first(const ir::Program& program, NonFinite what);

}  // namespace lockstep::transforms
