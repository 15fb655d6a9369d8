// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "lockstep/program/program.h"

namespace lockstep::transforms {

/// A program and its forward derivative. Equations that depend on tangents are linear in them; the others do
/// not use them.
struct Linearized {
  /// Inputs: values, then the tangents of the differentiated ones. Outputs: values, then the tangents that
  /// are not zero.
  ir::Program program;
  std::vector<bool> linear_inputs;  ///< of `program`
  std::vector<bool> has_tangent;    ///< for each differentiated output of the program
};

/// The tangents of outputs from number num_outputs on are taken as zero. Throws TraceError if an operation
/// has no derivative, or no reverse derivative.
Linearized linearize(const ir::Program& program, const std::vector<bool>& wrt,
                     std::size_t num_outputs = std::numeric_limits<std::size_t>::max());

/// The same, split into two programs.
struct SplitDerivative {
  /// Inputs: the program's. Outputs: the program's, then the other values that `linear` needs: the residuals.
  ir::Program known;

  /// Inputs: those of the program that are `available`, the residuals, the tangents. Outputs: the tangents
  /// that are not zero.
  ir::Program linear;
  std::size_t num_residuals = 0;

  /// For each residual, the number of the program's input that it is; nullopt if it is computed.
  std::vector<std::optional<std::size_t>> residual_inputs = {};
  std::vector<bool> has_tangent;
};

/// The program's `available` inputs are also inputs of the linear program. Values that only depend on the
/// `recomputed` ones of these are computed there again, except for the results of `saved` equations. All
/// other values that it needs are residuals.
using EquationFilter = std::function<bool(const ir::Equation&)>;
SplitDerivative split_derivative(const ir::Program& program, const std::vector<bool>& wrt,
                                 const std::vector<bool>& available, const std::vector<bool>& recomputed,
                                 const EquationFilter& saved = nullptr);

}  // namespace lockstep::transforms
