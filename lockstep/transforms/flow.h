#pragma once

#include <vector>

#include "lockstep/program/primitive.h"

namespace lockstep::transforms {

enum class Flow {
  kValues,   ///< from a value to all that is computed of it, or chosen by it
  kTangents  ///< from a value to all inexact values whose derivative in it may not be zero
};

/// Which variables of the program something flows to from the inputs that have the flag.
std::vector<bool> reached(const Program& program, const std::vector<bool>& inputs, Flow flow);

/// The same for an equation of a primitive with NestedRules: which inputs of its programs and which results
/// are reached from its operands.
struct NestedFlow {
  std::vector<std::vector<bool>> inputs;  ///< of each program
  std::vector<bool> results;
};
NestedFlow nested_flow(const Primitive& primitive, const OpParams& params, const std::vector<bool>& operands,
                       std::size_t num_results, Flow flow);

}  // namespace lockstep::transforms
