// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/held_programs.h"

#include <utility>
#include <vector>

#include "lockstep/program/primitive.h"

namespace lockstep::ir {

bool rewrite_held(Equation& equation, const RewriteHeld& rewrite) {
  if (!equation.primitive->nested) return false;
  bool changed = false;
  std::vector<std::shared_ptr<const Program>> programs;
  for (const NestedProgram& held : programs_of(equation)) {
    programs.push_back(rewrite(held.program));
    changed = changed || programs.back() != held.program;
  }
  if (changed)
    equation.params = equation.primitive->nested->with_programs(equation.params, std::move(programs));
  return changed;
}

}  // namespace lockstep::ir
