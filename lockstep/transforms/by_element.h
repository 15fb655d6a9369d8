// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/program.h"
#include "lockstep/program/uses.h"

namespace lockstep::transforms {

/// Whether each element of the equation's only result is computed from the elements of its operands at the
/// same place, from scalars, or from the place.
bool is_by_element(const ir::Program& program, const ir::Equation& equation);

/// Whether only such equations use the value, with results of its shape: XLA then computes it where it is
/// read. It is no output of the program.
bool is_read_by_elements(const ir::Program& program, const ir::Uses& uses, ir::Var var);

}  // namespace lockstep::transforms
