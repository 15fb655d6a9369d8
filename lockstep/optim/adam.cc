// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/adam.h"

#include <map>

namespace lockstep::optim::internal {
namespace {

/// The next moments and, from them, a direction.
class Direction {
 public:
  Direction(tree::TreeRef grads, MomentsRef state, const AdamNumbers& numbers) : eps_(numbers.eps) {
    const auto [b1, b2, eps] = numbers;
    state.count = incremented(state.count);
    auto mean = [b1 = b1](const Array& g, const Array& m) { return (1 - b1) * g + b1 * m; };
    auto mean_square = [b2 = b2](const Array& g, const Array& n) { return (1 - b2) * square(g) + b2 * n; };
    tree::internal::map_into<false>(state.mu, mean, grads, state.mu);
    tree::internal::map_into<false>(state.nu, mean_square, grads, state.nu);
    state.mu.for_each_leaf([&, b1 = b1, b2 = b2](const Array& m) {
      const DType dtype = m.dtype();
      if (!scales_.contains(dtype))
        scales_[dtype] = {bias_scale(b1, state.count, dtype), bias_scale(b2, state.count, dtype)};
    });
  }

  Array operator()(const Array& m, const Array& n) const {
    const Scales& by = scales_.at(m.dtype());
    return (m * by.mu) / (sqrt(n * by.nu) + eps_);
  }

 private:
  struct Scales {
    Array mu, nu;
  };

  double eps_;
  std::map<DType, Scales> scales_;
};

}  // namespace

void adam_direction(tree::TreeRef grads, MomentsRef state, const AdamNumbers& numbers) {
  const Direction direction(grads, state, numbers);
  tree::internal::map_into<false>(grads, direction, state.mu, state.nu);
}

void adam_updates(tree::TreeRef grads, MomentsRef state, tree::TreeRef params, const AdamNumbers& numbers,
                  double learning_rate, double weight_decay) {
  const Direction direction(grads, state, numbers);
  auto update = [&](const Array& m, const Array& n, const Array& p) {
    Array towards = direction(m, n);
    if (weight_decay != 0) towards = towards + weight_decay * p;
    return -learning_rate * towards;
  };
  tree::internal::map_into<false>(grads, update, state.mu, state.nu, params);
}

}  // namespace lockstep::optim::internal
