// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/program.h"

namespace lockstep::ir {

/// The cost of a program, counted from its equations before the compiler fuses any.
struct ProgramCost {
  /// 2 m n k for a dot product, one operation for each element that is reduced, one for each element of any
  /// other result, and none if data only moves. A loop's body counts as often as it runs, or once if that
  /// depends on values; of branches the most expensive one counts.
  double flops = 0;

  /// The bytes of all operands read and results written.
  double bytes_accessed = 0;
};

ProgramCost cost_of(const Program& program);

/// The cost of one of its equations.
ProgramCost cost_of(const Program& program, const Equation& equation);

/// Whether the equation costs no more than a pass over its results, and may be done at another time.
bool is_light(const Program& program, const Equation& equation);

/// The peak of memory, in bytes, if each result has memory of its own from its equation to its last use, and
/// inputs all the time. An upper bound: the compiler needs less, because it fuses equations.
std::int64_t peak_bytes(const Program& program);

}  // namespace lockstep::ir
