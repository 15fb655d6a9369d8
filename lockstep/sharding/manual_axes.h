// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/program/program.h"
#include "lockstep/sharding/split.h"

namespace lockstep::sharding {

/// For each equation of a flat program (flatten.h): of a placement between to_local and to_global, the mesh
/// axes along which the function under shard_map sees single devices; none for other equations.
///
/// These are the placement's manual axes. Where vmap has mapped the function (a placement leaves a dimension
/// as it is), they are only those that a spec, a collective or a varying value of the function names. The
/// other axes are free to split the examples, as if they were not manual.
std::vector<Axes> manual_axes(const ir::Program& program, const Grid& grid);

}  // namespace lockstep::sharding
