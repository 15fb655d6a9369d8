// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/held_programs.h"

#include <memory>
#include <utility>

#include "lockstep/program/held_programs.h"

namespace lockstep::sharding {

bool rewrite_held(ir::Equation& equation, CommunicationReasons& reasons, const RewriteProgram& rewrite) {
  return ir::rewrite_held(equation, [&](const std::shared_ptr<const ir::Program>& held) {
    CommunicationReasons found;
    std::optional<ir::Program> written = rewrite(*held, found);
    const auto now = written ? std::make_shared<const ir::Program>(std::move(*written)) : held;
    for (auto& [place, reason] : found)
      reasons[{place.first ? place.first : now.get(), place.second}] = std::move(reason);
    return now;
  });
}

}  // namespace lockstep::sharding
