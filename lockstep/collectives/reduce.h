#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/base/dtype.h"
#include "lockstep/collectives/plan.h"

namespace lockstep::collectives {

/// Whether the reduction exists: complex numbers have no order, so no minimum and maximum.
bool can_reduce(ReduceOp op, DType dtype);

/// out[i] = ((sources[0][i] op sources[1][i]) op …) for each of `count` elements, and the same into `copy`
/// where that is not null. `out` and `copy` may be one of the sources. Booleans: the sum is "or", the product
/// "and". Half precisions are computed in float and rounded once. A NaN stays a NaN, in minimum and maximum
/// too. Integers wrap around. `stream` writes `out` past the caches.
void reduce(ReduceOp op, DType dtype, const void* const* sources, int n, std::size_t count, void* out,
            void* copy, bool stream);

/// memcpy, past the caches where `stream` is set.
void copy_bytes(void* out, const void* in, std::size_t bytes, bool stream);

}  // namespace lockstep::collectives
