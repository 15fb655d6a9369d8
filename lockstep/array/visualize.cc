// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/visualize.h"

#include "lockstep/sharding/visualize.h"

namespace lockstep {

void visualize_array_sharding(const Array& x) { visualize_sharding(x.shape(), x.sharding()); }

}  // namespace lockstep
