// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "lockstep/program/program.h"
#include "lockstep/sharding/enlarged.h"
#include "lockstep/sharding/factors.h"
#include "lockstep/sharding/split.h"

namespace lockstep::sharding {

/// Gives every variable of the program a split. The splits of inputs and of results of placements
/// (placement.h) are fixed; other entries in `splits` are initial values that may grow. Splits are propagated
/// forwards from operands to results and backwards from results to operands, through the factors of the
/// sharding rules, until nothing changes. They only grow, so the first one to use an axis keeps it. A
/// dimension gets an axis only if the axis divides it.
void propagate(const ir::Program& program, std::span<const RuledEquation> equations, const Grid& grid,
               const EnlargedValues& enlarged, std::vector<Split>& splits);

}  // namespace lockstep::sharding
