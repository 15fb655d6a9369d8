// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "lockstep/optim/chain.h"

/// Transformations that keep means or sums of the updates, with optax's names.
namespace lockstep::optim {

template <class Params>
struct EmaState {
  Array count;
  Params ema;
};

/// The decaying mean of the updates: ema' = decay * ema + (1 - decay) * updates. With debias the result is
/// ema' divided by 1 - decay^count, which corrects for the start at 0. It also serves to average parameters.
struct Ema {
  double decay;
  bool debias = true;

  template <class Params>
  EmaState<Params> init(const Params& params) const {
    return {internal::zero_count(tree::leaves(params)), internal::zeros_of(params)};
  }
  template <class Params>
  std::pair<Params, EmaState<Params>> update(const Params& updates, const EmaState<Params>& state,
                                             const Params&) const {
    return update(updates, state);
  }
  template <class Params>
  std::pair<Params, EmaState<Params>> update(const Params& updates, const EmaState<Params>& state) const {
    auto mix = [&](const Array& u, const Array& e) { return (1 - decay) * u + decay * e; };
    EmaState<Params> next{internal::incremented(state.count), tree::map(mix, updates, state.ema)};
    if (!debias) return {next.ema, std::move(next)};
    auto unbiased = [&](const Array& e) { return e * internal::bias_scale(decay, next.count, e.dtype()); };
    return {tree::map(unbiased, next.ema), std::move(next)};
  }
};
inline Ema ema(double decay, bool debias = true) { return {decay, debias}; }

template <class Params>
struct ApplyEveryState {
  Array count;  ///< updates since the last sum was returned: an i32 scalar
  Params grad_acc;
};

/// Returns the sum of the updates of k steps at the last of them, and zeros at the steps before.
struct ApplyEvery {
  std::int64_t k = 1;

  template <class Params>
  ApplyEveryState<Params> init(const Params& params) const {
    return {internal::zero_count(tree::leaves(params)), internal::zeros_of(params)};
  }
  template <class Params>
  std::pair<Params, ApplyEveryState<Params>> update(const Params& updates,
                                                    const ApplyEveryState<Params>& state,
                                                    const Params&) const {
    const Array first = state.count == 0, last = state.count == k - 1;
    ApplyEveryState<Params> next{
        where(last, 0, state.count + 1),
        tree::map([&](const Array& u, const Array& sum) { return where(first, u, sum + u); }, updates,
                  state.grad_acc)};
    return {tree::map([&](const Array& sum) { return where(last, sum, zeros_like(sum)); }, next.grad_acc),
            std::move(next)};
  }
};
inline ApplyEvery apply_every(std::int64_t k = 1) { return {k}; }

namespace internal {

/// The transformation if `wanted`; otherwise returns the updates unchanged.
template <class Transformation>
struct When {
  bool wanted;
  Transformation transformation;

  template <class Params>
  auto init(const Params& params) const {
    using State = decltype(transformation.init(params));
    return wanted ? std::optional<State>(transformation.init(params)) : std::nullopt;
  }
  template <class Params, class State>
  std::pair<Params, State> update(const Params& updates, const State& state, const Params& params) const {
    if (!wanted) return {updates, state};
    auto [changed, next] = transformation.update(updates, *state, params);
    return {std::move(changed), std::move(next)};
  }
};
template <class Transformation>
When<Transformation> when(bool wanted, Transformation transformation) {
  return {wanted, std::move(transformation)};
}

}  // namespace internal
}  // namespace lockstep::optim
