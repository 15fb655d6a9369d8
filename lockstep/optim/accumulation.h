// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "lockstep/optim/chain.h"

/// Transformations that keep means or sums of the updates, and means of weights, with optax's names.
namespace lockstep::optim {

namespace internal {
/// step_size * now + (1 - step_size) * old.
Array mixed(const Array& now, const Array& old, const Operand& step_size);
}  // namespace internal

template <class Params>
struct EmaState {
  Array count;
  Params ema;
};

/// The decaying mean of the updates: ema' = decay * ema + (1 - decay) * updates. With debias the result is
/// ema' divided by 1 - decay^count, which corrects for the start at 0. For a mean of the parameters, which
/// begins at the parameters, see incremental_update.
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

/// step_size * new_tree + (1 - step_size) * old_tree: the decaying mean of a model's weights, which begins at
/// the weights themselves, for a step_size of 1 - decay:
///   Model mean = params;
///   mean = incremental_update(params, mean, 1 - 0.999);  // after each apply_updates
/// For params that are narrower than f32 let the mean begin as f32: in bf16 most steps of 0.001 are lost. If
/// `params` are donated, begin with a copy of them, because the first mean has the same arrays.
template <class Tree>
Tree incremental_update(const Tree& new_tree, const Tree& old_tree, const Operand& step_size) {
  CallSiteScope here(step_size.site());
  return tree::map([&](const Array& now, const Array& old) { return internal::mixed(now, old, step_size); },
                   new_tree, old_tree);
}

/// new_tree after each update_period steps, otherwise old_tree; `steps` is an integer scalar.
template <class Tree>
Tree periodic_update(const Tree& new_tree, const Tree& old_tree, const Array& steps,
                     std::int64_t update_period, SourceLocation where = SourceLocation::current()) {
  CallSiteScope here(CallSite::from(where));
  const Array due = steps % update_period == 0;
  return tree::map([&](const Array& now, const Array& old) { return lockstep::where(due, now, old); },
                   new_tree, old_tree);
}

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
