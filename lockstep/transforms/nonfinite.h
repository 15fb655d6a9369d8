#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/program/program.h"

namespace lockstep::transforms {

/// What is looked for in floating and complex values.
struct NonFinite {
  bool nans = true, infs = false;
};

/// The program with a last output more: a bool scalar, the same on all devices, whether one of its inexact
/// outputs holds what is looked for. Nothing where no output is inexact.
std::optional<Program> with_check(const Program& program, NonFinite what);

/// A program that finds what made the first such value, also within loops, branches and shard_map.
///   inputs    the program's
///   output    an i32 scalar, the same on all devices: a place in `operations`; or, that plus i, where none
///   of
///             them made it and input i held one; or kNowhere
/// An operation makes one where a result of it holds one and no operand does. The first is that which comes
/// first as the program runs; of what several devices make under shard_map, that which stands first in the
/// program. Prints and checks of debug:: are left out.
struct NonFiniteSearch {
  static constexpr std::int32_t kNowhere = 0x7fffffff;

  struct Operation {
    std::string primitive;
    std::string result;  ///< "f32[4]"
    CallSite site;       ///< the user's line
    std::vector<std::string>
        within;  ///< the loops and branches that it is in, from outside: "scan at a.cc:7"
  };

  Program program;
  std::vector<Operation> operations;
};
NonFiniteSearch search_for_first(const Program& program, NonFinite what);

}  // namespace lockstep::transforms
