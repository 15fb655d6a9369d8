#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lockstep/program/primitive.h"

namespace lockstep::transforms {

/// Derivative, forwards. `wrt` says for each input whether it is differentiated.
///   inputs    the program's, then the tangent of each input that is differentiated
///   outputs   the program's, then the tangent of each output of inexact dtype, zeros where it depends on no
///             tangent
/// A tangent has the aval of its value. Throws TraceError where an input that is differentiated is an integer
/// or a bool, naming its number and dtype, and where an operation has no derivative.
Program jvp(const Program& program, const std::vector<bool>& wrt);

/// Adds the program's equations, with those of its derivative, to `builder`. An input without a tangent is
/// not differentiated. `linearize` as in NestedJvpCall.
JvpValues inline_jvp(Builder& builder, const Program& program, std::span<const Value> inputs,
                     std::span<const std::optional<Value>> tangents, bool linearize = false);

}  // namespace lockstep::transforms
