#pragma once

#include <vector>

#include "lockstep/program/program.h"

namespace lockstep::transforms {

/// A program in two: what can be computed before some of its inputs are known, and the rest.
struct Split {
  Program before;  ///< inputs: those known; outputs: those of the program that depend on no other, then what
                   ///< the rest needs
  Program after;   ///< inputs: what it needs of `before`, then the unknown inputs; outputs: the others
  std::vector<bool> output_known;  ///< of each output of the program: whether `before` gives it
  std::size_t num_passed = 0;      ///< how many values `before` hands to `after`
};

/// `known` says for each input whether it is known at first.
Split split(const Program& program, const std::vector<bool>& known);

}  // namespace lockstep::transforms
