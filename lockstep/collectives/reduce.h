// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/base/dtype.h"
#include "lockstep/collectives/plan.h"
#include "lockstep/collectives/sum_tree.h"

namespace lockstep::collectives {

/// Whether the reduction is supported: complex numbers have no order, so no minimum and maximum.
bool can_reduce(ReduceOp op, DType dtype);

/// The dtype of a reduction of some of the terms: f32 for sums and products of numbers of 8 and 16 bits.
DType partial_type(ReduceOp op, DType dtype);

/// out[i] = ((sources[0][i] op sources[1][i]) op …) for each of `count` elements; also written to `copy`,
/// unless that is null. `out` and `copy` may be one of the sources. For bools, the sum is "or" and the
/// product "and". Floats of 8 and 16 bits are computed in f32 and rounded once. NaN is propagated, also in
/// minimum and maximum. Integers wrap around. Subnormal floats are zero in sums and products, whatever the
/// thread's floating-point mode is; those of f16 and f8 are not, because they are not subnormal in f32. With
/// `stream`, `out` is written past the caches.
void reduce(ReduceOp op, DType dtype, const void* const* sources, int n, std::size_t count, void* out,
            void* copy, bool stream);

struct Term {
  const void* data;
  bool is_partial = false;  ///< the result of some of the terms, in partial_type
};
struct Terms {
  const Term* terms;
  int n;
  const SumTree* tree = nullptr;  ///< of the n terms; null: one after the other
};
struct Result {
  void* out;
  void* copy = nullptr;     ///< the same once more
  bool is_partial = false;  ///< in partial_type, not rounded
};

/// The same, of terms and with a result that may be partial, and in an order that may be another.
void reduce(ReduceOp op, DType dtype, const Terms& terms, std::size_t count, const Result& result);

/// The `count` elements at `in` as a partial result of this reduction.
inline void make_partial(const Collective& c, const void* in, std::size_t count, void* out) {
  const Term term{in};
  reduce(c.op, c.dtype, {&term, 1}, count, {out, nullptr, true});
}

/// memcpy; past the caches if `stream` is set.
void copy_bytes(void* out, const void* in, std::size_t bytes, bool stream);

}  // namespace lockstep::collectives
