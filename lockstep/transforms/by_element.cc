// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/by_element.h"

#include <algorithm>

#include "lockstep/program/primitives/shape.h"

namespace lockstep::transforms {

bool is_by_element(const ir::Program& program, const ir::Equation& equation) {
  if (equation.primitive == &ir::broadcast_in_dim_p()) return program.aval(equation.inputs[0]).shape.empty();
  return equation.primitive->by_element || equation.primitive == &ir::full_p() ||
         equation.primitive == &ir::iota_p();
}

bool is_read_by_elements(const ir::Program& program, const ir::Uses& uses, ir::Var var) {
  return std::ranges::all_of(uses.of(var), [&](std::size_t place) {
    if (place == program.equations.size()) return false;
    const ir::Equation& user = program.equations[place];
    return is_by_element(program, user) && program.aval(user.outputs[0]).shape == program.aval(var).shape;
  });
}

}  // namespace lockstep::transforms
