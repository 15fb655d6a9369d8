// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/transformation.h"

#include <cmath>

#include "lockstep/ops/apply.h"

namespace lockstep::optim::internal {

void add_updates(tree::TreeRef params, tree::TreeRef updates) {
  auto add = [](const Array& p, const Array& u) { return astype(p + u, p.dtype()); };
  tree::internal::map_into<false>(params, add, params, updates);
}

Array global_norm(tree::TreeRef tree) {
  Array total;
  for (const Array& leaf : tree.leaves()) {
    Array squares = sum(square(ops::widened(leaf)));
    total = total.valid() ? total + squares : squares;
  }
  return total.valid() ? sqrt(total) : zeros({});
}

void clip_to_global_norm(tree::TreeRef grads, double max_norm) {
  const Array norm = global_norm(grads);
  auto clip = [&](const Array& g) {
    return where(norm < max_norm, g, astype(g / norm, g.dtype()) * max_norm);
  };
  tree::internal::map_into<false>(grads, clip, grads);
}

void make_zeros(tree::TreeRef tree) {
  auto zero = [](const Array& x) { return zeros_like(x); };
  tree::internal::map_into<false>(tree, zero, tree);
}

Array zero_count(std::span<const Array> params) {
  if (params.empty()) return zeros({}, DType::kI32);
  return sum(zeros_like(params.front(), DType::kI32));
}

Array incremented(const Array& count) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  return where(count < kMost, count + 1, kMost);
}

DType scale_dtype(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kC128 ? DType::kF64 : DType::kF32;
}

Array bias_scale(double decay, const Array& count, DType dtype) {
  const Array steps = astype(count, scale_dtype(dtype));
  // 1 - decay^count loses the digits of a decay near 1.
  const Array rest = decay > 0 ? -expm1(std::log(decay) * steps) : 1.0 - power(decay, steps);
  return astype(1.0 / rest, dtype);
}

}  // namespace lockstep::optim::internal
