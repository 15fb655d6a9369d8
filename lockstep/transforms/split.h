// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/program/program.h"

namespace lockstep::transforms {

/// A program split in two: the part that can be computed from the known inputs, and the rest.
struct Split {
  ir::Program before;  ///< inputs: the known ones; outputs: the program's outputs that only depend on these,
                       ///< then the values that `after` needs
  ir::Program after;   ///< inputs: the values from `before`, then the unknown inputs; outputs: the others
  std::vector<bool> output_known;  ///< for each output of the program whether `before` returns it
  std::size_t num_passed = 0;      ///< the number of values that `before` passes to `after`
};

/// `known` flags the inputs that are known.
Split split(const ir::Program& program, const std::vector<bool>& known);

}  // namespace lockstep::transforms
