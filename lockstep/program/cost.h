#pragma once

#include "lockstep/program/program.h"

namespace lockstep {

/// What a program does, counted from its equations as they are written, before the compiler fuses any.
struct ProgramCost {
  /// 2 m n k for a dot product, an operation for each element reduced, and one for each element of any other
  /// result; none where data only moves. A loop's body counts as often as it runs, once where values decide;
  /// of branches the dearest counts.
  double flops = 0;

  /// Of all operands read and results written.
  double bytes_accessed = 0;
};

ProgramCost cost_of(const Program& program);

/// The most bytes that are needed at once if each equation's results have memory of their own, from the
/// equation to their last use, and the inputs all the time. More than what the compiler needs, which fuses.
std::int64_t peak_bytes(const Program& program);

}  // namespace lockstep
