// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/base/dtype.h"
#include "lockstep/collectives/plan.h"

namespace lockstep::collectives {

/// Whether the reduction is supported: complex numbers have no order, so no minimum and maximum.
bool can_reduce(ReduceOp op, DType dtype);

/// out[i] = ((sources[0][i] op sources[1][i]) op …) for each of `count` elements; also written to `copy`,
/// unless that is null. `out` and `copy` may be one of the sources. For bools, the sum is "or" and the
/// product "and". Half precisions are computed in float and rounded once. NaN is propagated, also in minimum
/// and maximum. Integers wrap around. With `stream`, `out` is written past the caches.
void reduce(ReduceOp op, DType dtype, const void* const* sources, int n, std::size_t count, void* out,
            void* copy, bool stream);

/// memcpy; past the caches if `stream` is set.
void copy_bytes(void* out, const void* in, std::size_t bytes, bool stream);

}  // namespace lockstep::collectives
