#pragma once

#include <limits>
#include <vector>

#include "lockstep/program/program.h"

namespace lockstep::transforms {

/// Derivative, backwards. `wrt` says for each input whether it is differentiated.
///   inputs    the program's, then a cotangent for each of the first `of_outputs` outputs of inexact dtype;
///             those of the others are zero
///   outputs   the program's, then the cotangent of each input that is differentiated, zeros where no output
///             depends on it
/// A cotangent has the aval of its value; in particular it varies over the same mesh axes. Throws TraceError
/// where an input that is differentiated is an integer or a bool, naming its number and dtype, and where an
/// operation has no derivative.
Program vjp(const Program& program, const std::vector<bool>& wrt,
            std::size_t of_outputs = std::numeric_limits<std::size_t>::max());

}  // namespace lockstep::transforms
