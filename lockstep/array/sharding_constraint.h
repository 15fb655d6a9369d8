// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>

#include "lockstep/array/array.h"

namespace lockstep {

/// x with this sharding from here on. In a traced function it is a fixed point for the partitioner, which
/// derives other shardings from it; outside of one it is device_put. The gradient of x has the same sharding.
/// All arrays of a traced function are over one mesh, which must be the sharding's. A size that the mesh does
/// not divide is padded within a traced function, and an error outside. Throws ShardingError if the spec has
/// more entries than x has dimensions.
Array with_sharding_constraint(const Array& x, const Sharding& sharding,
                               std::source_location where = std::source_location::current());

}  // namespace lockstep
