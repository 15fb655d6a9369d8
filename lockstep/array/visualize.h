#pragma once

#include "lockstep/array/array.h"

namespace lockstep {

/// As visualize_sharding, of a concrete array.
void visualize_array_sharding(const Array& x);

}  // namespace lockstep
