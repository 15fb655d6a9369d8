// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/program/primitive.h"

namespace lockstep::transforms {

enum class Flow {
  kValues,   ///< from a value to everything that is computed from it, or selected by it
  kTangents  ///< from a value to all inexact values whose derivative with respect to it may not be zero
};

/// The variables that are reached from the flagged inputs.
std::vector<bool> reached(const ir::Program& program, const std::vector<bool>& inputs, Flow flow);

/// For an equation of a primitive with NestedRules: the inputs of its programs and the results that are
/// reached from its operands.
struct NestedFlow {
  std::vector<std::vector<bool>> inputs;  ///< of each program
  std::vector<bool> results;
};
NestedFlow nested_flow(const ir::Primitive& primitive, const ir::OpParams& params,
                       const std::vector<bool>& operands, std::size_t num_results, Flow flow);

}  // namespace lockstep::transforms
