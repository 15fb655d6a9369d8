// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <vector>

#include "lockstep/program/program.h"

namespace lockstep::transforms {

/// The reverse derivative. `wrt` flags the inputs that are differentiated.
///   inputs    the program's, then a cotangent for each inexact one of the first `of_outputs` outputs; the
///             cotangents of the others are zero
///   outputs   the program's, then the cotangent of each flagged input; zeros if no output depends on it
/// A cotangent has the aval of its value; in particular it varies over the same mesh axes. Throws TraceError
/// if a flagged input is an integer or bool, naming its number and dtype, and if an operation has no
/// derivative.
ir::Program vjp(const ir::Program& program, const std::vector<bool>& wrt,
                std::size_t of_outputs = std::numeric_limits<std::size_t>::max());

}  // namespace lockstep::transforms
