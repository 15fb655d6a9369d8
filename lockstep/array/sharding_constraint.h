#pragma once

#include <source_location>

#include "lockstep/array/array.h"

namespace lockstep {

/// x, which shall lie as the sharding says from here on: in a traced function a fixed point for the
/// partitioner, which works out the other splits from it; outside of one, device_put. The gradient of x lies
/// the same way. All arrays of a traced function are over one mesh, the sharding's too. A size that the mesh
/// does not divide is padded within the traced function, and an error outside of one. Throws ShardingError
/// where the spec has more entries than x dimensions.
Array with_sharding_constraint(const Array& x, const Sharding& sharding,
                               std::source_location where = std::source_location::current());

}  // namespace lockstep
