// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lockstep/program/primitive.h"

namespace lockstep::transforms {

/// The forward derivative. `wrt` flags the inputs that are differentiated.
///   inputs    the program's, then the tangent of each flagged input
///   outputs   the program's, then the tangent of each inexact output; zeros if it depends on no tangent
/// A tangent has the aval of its value. Throws TraceError if a flagged input is an integer or bool, naming
/// its number and dtype, and if an operation has no derivative.
ir::Program jvp(const ir::Program& program, const std::vector<bool>& wrt);

/// Adds the program's equations, and those of its derivative, to `builder`. An input without a tangent is not
/// differentiated. `linearize` is as in NestedJvpCall.
ir::JvpValues inline_jvp(ir::Builder& builder, const ir::Program& program, std::span<const ir::Value> inputs,
                         std::span<const std::optional<ir::Value>> tangents, bool linearize = false);

}  // namespace lockstep::transforms
