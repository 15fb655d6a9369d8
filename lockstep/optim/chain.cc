// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/chain.h"

#include <map>

namespace lockstep::optim {

namespace internal {

void add_decayed(tree::TreeRef updates, tree::TreeRef params, double weight_decay, const Mask& mask) {
  auto add = [&](const std::string& path, const Array& u, const Array& p) {
    return mask && !mask(path, p) ? u : u + weight_decay * p;
  };
  tree::internal::map_into<true>(updates, add, updates, params);
}

void scale_by_schedule(tree::TreeRef updates, Array& count, const Schedule& schedule) {
  std::map<DType, Array> factors;
  auto scaled = [&](const Array& u) {
    Array& factor = factors[scale_dtype(u.dtype())];
    if (!factor.valid()) factor = schedule(count, scale_dtype(u.dtype()));
    return astype(factor, u.dtype()) * u;
  };
  tree::internal::map_into<false>(updates, scaled, updates);
  count = incremented(count);
}

void follow_trace(tree::TreeRef updates, tree::TreeRef trace, double decay, bool nesterov) {
  auto follow = [&](const Array& u, const Array& t) { return u + decay * t; };
  tree::internal::map_into<false>(trace, follow, updates, trace);
  auto next = [&](const Array& u, const Array& t) { return nesterov ? follow(u, t) : t; };
  tree::internal::map_into<false>(updates, next, updates, trace);
}

}  // namespace internal

ScaleBySchedule scale_by_learning_rate(Schedule learning_rate) {
  return {[learning_rate = std::move(learning_rate)](const Array& count, DType dtype) {
    return -learning_rate(count, dtype);
  }};
}

}  // namespace lockstep::optim
