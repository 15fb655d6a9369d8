#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "lockstep/program/program.h"

namespace lockstep::transforms {

/// A program and its derivative, forwards. Equations that depend on tangents are linear in them, the others
/// know nothing of them.
struct Linearized {
  /// Inputs: values, then the tangents of those that are differentiated. Outputs: values, then the tangents
  /// that are not zero.
  Program program;
  std::vector<bool> linear_inputs;  ///< of `program`
  std::vector<bool> has_tangent;    ///< of each output of the program that is differentiated
};

/// The tangents of outputs from the num_outputs-th on are taken to be zero. Throws TraceError where an
/// operation has no derivative, or none that can be taken backwards.
Linearized linearize(const Program& program, const std::vector<bool>& wrt,
                     std::size_t num_outputs = std::numeric_limits<std::size_t>::max());

/// The same in two programs.
struct SplitDerivative {
  /// Inputs: the program's. Outputs: the program's, then what `linear` needs besides: the residuals.
  Program known;

  /// Inputs: those of the program's that are `available`, the residuals, the tangents. Outputs: the tangents
  /// that are not zero.
  Program linear;
  std::size_t num_residuals = 0;

  /// Of each residual, the program's input that it is; none where it is computed.
  std::vector<std::optional<std::size_t>> residual_inputs = {};
  std::vector<bool> has_tangent;
};

/// Of the program's inputs, `available` are at hand where the linear program runs. What depends only on the
/// `recomputed` of them is computed there once more, but for what `saved` equations give; everything else
/// that it needs is a residual.
using EquationFilter = std::function<bool(const Equation&)>;
SplitDerivative split_derivative(const Program& program, const std::vector<bool>& wrt,
                                 const std::vector<bool>& available, const std::vector<bool>& recomputed,
                                 const EquationFilter& saved = nullptr);

}  // namespace lockstep::transforms
