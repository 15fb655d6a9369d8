// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/array/array.h"

namespace lockstep {

/// As visualize_sharding, for a concrete array.
void visualize_array_sharding(const Array& x);

}  // namespace lockstep
