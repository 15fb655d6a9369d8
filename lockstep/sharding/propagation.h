#pragma once

#include <span>
#include <vector>

#include "lockstep/program/program.h"
#include "lockstep/sharding/factors.h"
#include "lockstep/sharding/split.h"

namespace lockstep::sharding {

/// Gives every variable of the program a split. The inputs and the results of placements (placement.h) have
/// theirs already; those in `splits` of other variables are wishes, which may grow. Splits go forwards from
/// operands to results and backwards from results to operands, through the factors of the sharding rules,
/// until nothing changes. They only grow: who comes first wins. A dimension gets axes only where they divide
/// it.
void propagate(const Program& program, std::span<const RuledEquation> equations, const Grid& grid,
               std::vector<Split>& splits);

}  // namespace lockstep::sharding
