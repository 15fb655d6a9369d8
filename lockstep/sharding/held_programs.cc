// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/held_programs.h"

#include <memory>
#include <utility>
#include <vector>

#include "lockstep/program/primitive.h"

namespace lockstep::sharding {

bool rewrite_held(ir::Equation& equation, CommunicationReasons& reasons, const RewriteProgram& rewrite) {
  if (!equation.primitive->nested) return false;
  bool changed = false;
  std::vector<std::shared_ptr<const ir::Program>> programs;
  for (const ir::NestedProgram& held : ir::programs_of(equation)) {
    CommunicationReasons found;
    std::optional<ir::Program> written = rewrite(*held.program, found);
    changed = changed || written.has_value();
    programs.push_back(written ? std::make_shared<const ir::Program>(std::move(*written)) : held.program);
    for (auto& [place, reason] : found)
      reasons[{place.first ? place.first : programs.back().get(), place.second}] = std::move(reason);
  }
  if (changed)
    equation.params = equation.primitive->nested->with_programs(equation.params, std::move(programs));
  return changed;
}

}  // namespace lockstep::sharding
