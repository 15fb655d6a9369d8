// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "lockstep/base/function.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/schedules.h"
#include "lockstep/optim/transformation.h"

/// Gradient transformations, with optax's names, and chains of them: chain(clip_by_global_norm(1.0),
/// scale_by_adam(), scale_by_learning_rate(1e-3)) is an optimizer as in transformation.h. Each has
/// `init(params)` and `update(updates, state, params)`, which returns the pair of new updates and state.
namespace lockstep::optim {

/// The state of transformations that need none.
struct EmptyState {};

/// A state that is the number of updates done: an i32 scalar.
struct CountState {
  Array count;
};

template <class Params>
struct Moments {
  Array count;
  Params mu, nu;
};

/// A transformation without a state that maps each array by itself.
template <class F>
struct Stateless {
  F f;  ///< (update, parameter) -> update

  template <class Params>
  EmptyState init(const Params&) const {
    return {};
  }
  template <class Params>
  std::pair<Params, EmptyState> update(const Params& updates, const EmptyState&, const Params& params) const {
    return {tree::map(f, updates, params), {}};
  }
};

template <class F>
Stateless(F) -> Stateless<F>;

/// updates * factor.
inline auto scale(double factor) {
  return Stateless{[factor](const Array& u, const Array&) { return factor * u; }};
}

/// Each element clipped to [-max_delta, max_delta].
inline auto clip(double max_delta) {
  return Stateless{
      [max_delta](const Array& u, const Array&) { return lockstep::clip(u, -max_delta, max_delta); }};
}

/// updates + weight_decay * params, for the parameters whose path (tree/paths.h) the mask selects; by default
/// all. The mask is a function or a tree::Rules<bool>.
using Mask = std::function<bool(const std::string& path, const Array& parameter)>;

namespace internal {
/// Change trees of any type, as in transformation.h.
void add_decayed(tree::TreeRef updates, tree::TreeRef params, double weight_decay, const Mask& mask);
void scale_by_schedule(tree::TreeRef updates, Array& count, const Schedule& schedule);
void follow_trace(tree::TreeRef updates, tree::TreeRef trace, double decay, bool nesterov);
}  // namespace internal

struct AddDecayedWeights {
  double weight_decay;
  Mask mask;

  template <class Params>
  EmptyState init(const Params&) const {
    return {};
  }
  template <class Params>
  std::pair<Params, EmptyState> update(const Params& updates, const EmptyState&, const Params& params) const {
    std::pair<Params, EmptyState> out(updates, EmptyState());
    internal::add_decayed(tree::tree_ref(out.first), tree::tree_ref(params), weight_decay, mask);
    return out;
  }
};
inline AddDecayedWeights add_decayed_weights(double weight_decay, Mask mask = {}) {
  return {weight_decay, mask};
}

/// Scales the updates down to the global norm max_norm if their global norm is larger.
struct ClipByGlobalNorm {
  double max_norm;

  template <class Params>
  EmptyState init(const Params&) const {
    return {};
  }
  template <class Params>
  std::pair<Params, EmptyState> update(const Params& updates, const EmptyState&, const Params&) const {
    return {clip_by_global_norm(updates, max_norm), {}};
  }
};
inline ClipByGlobalNorm clip_by_global_norm(double max_norm) { return {max_norm}; }

/// updates * schedule(count).
struct ScaleBySchedule {
  Schedule schedule;

  template <class Params>
  CountState init(const Params& params) const {
    return {internal::zero_count(tree::leaves(params))};
  }
  template <class Params>
  std::pair<Params, CountState> update(const Params& updates, const CountState& state, const Params&) const {
    std::pair<Params, CountState> out(updates, state);
    internal::scale_by_schedule(tree::tree_ref(out.first), out.second.count, schedule);
    return out;
  }
};
inline ScaleBySchedule scale_by_schedule(Schedule schedule) { return {std::move(schedule)}; }

/// updates * -learning_rate; the learning rate is a number or a schedule.
inline auto scale_by_learning_rate(double learning_rate) { return scale(-learning_rate); }
ScaleBySchedule scale_by_learning_rate(Schedule learning_rate);

/// Momentum: trace' = updates + decay * trace. The result is trace', or, with nesterov, updates + decay *
/// trace'.
struct Trace {
  double decay;
  bool nesterov = false;

  template <class Params>
  Params init(const Params& params) const {
    return internal::zeros_of(params);
  }
  template <class Params>
  std::pair<Params, Params> update(const Params& updates, const Params& state, const Params&) const {
    std::pair<Params, Params> out(updates, state);
    internal::follow_trace(tree::tree_ref(out.first), tree::tree_ref(out.second), decay, nesterov);
    return out;
  }
};
inline Trace trace(double decay, bool nesterov = false) { return {decay, nesterov}; }

/// Adam's direction (adam.h), without the learning rate and weight decay.
struct ScaleByAdam {
  double b1 = 0.9, b2 = 0.999, eps = 1e-8;

  template <class Params>
  Moments<Params> init(const Params& params) const {
    return {internal::zero_count(tree::leaves(params)), internal::zeros_of(params),
            internal::zeros_of(params)};
  }
  template <class Params>
  std::pair<Params, Moments<Params>> update(const Params& updates, const Moments<Params>& state,
                                            const Params&) const {
    std::pair<Params, Moments<Params>> out(updates, state);
    internal::adam_direction(tree::tree_ref(out.first), internal::moments_of(out.second), {b1, b2, eps});
    return out;
  }
};
inline ScaleByAdam scale_by_adam(const ScaleByAdam& options = {}) { return options; }
[[deprecated("name the options: scale_by_adam({.b1 = 0.9, .b2 = 0.99})")]] inline ScaleByAdam scale_by_adam(
    double b1, double b2 = 0.999, double eps = 1e-8) {
  return {b1, b2, eps};
}

/// Lion's direction (Chen and others, 2023): sign(b1 * mu + (1 - b1) * g), then mu' = b2 * mu + (1 - b2) * g.
struct ScaleByLion {
  double b1 = 0.9, b2 = 0.99;

  template <class Params>
  Params init(const Params& params) const {
    return internal::zeros_of(params);
  }
  template <class Params>
  std::pair<Params, Params> update(const Params& updates, const Params& mu, const Params&) const {
    return {
        tree::map([&](const Array& g, const Array& m) { return sign((1 - b1) * g + b1 * m); }, updates, mu),
        tree::map([&](const Array& g, const Array& m) { return (1 - b2) * g + b2 * m; }, updates, mu)};
  }
};
inline ScaleByLion scale_by_lion(const ScaleByLion& options = {}) { return options; }
[[deprecated("name the options: scale_by_lion({.b1 = 0.9, .b2 = 0.99})")]] inline ScaleByLion scale_by_lion(
    double b1, double b2 = 0.99) {
  return {b1, b2};
}

/// g / sqrt(nu' + eps), where nu' = decay * nu + (1 - decay) * g².
struct ScaleByRms {
  double decay = 0.9, eps = 1e-8, initial_scale = 0;

  template <class Params>
  Params init(const Params& params) const {
    return tree::map([&](const Array& p) { return full_like(p, initial_scale); }, params);
  }
  template <class Params>
  std::pair<Params, Params> update(const Params& updates, const Params& nu, const Params&) const {
    Params next = tree::map(
        [&](const Array& g, const Array& n) { return (1 - decay) * square(g) + decay * n; }, updates, nu);
    return {tree::map([&](const Array& g, const Array& n) { return g * rsqrt(n + eps); }, updates, next),
            next};
  }
};
inline ScaleByRms scale_by_rms(const ScaleByRms& options = {}) { return options; }
[[deprecated("name the options: scale_by_rms({.decay = 0.9, .eps = 1e-8})")]] inline ScaleByRms scale_by_rms(
    double decay, double eps = 1e-8, double initial_scale = 0) {
  return {decay, eps, initial_scale};
}

/// g / sqrt(s' + eps), where s' = s + g²; 0 where s' is 0.
struct ScaleByRss {
  double initial_accumulator_value = 0.1, eps = 1e-7;

  template <class Params>
  Params init(const Params& params) const {
    return tree::map([&](const Array& p) { return full_like(p, initial_accumulator_value); }, params);
  }
  template <class Params>
  std::pair<Params, Params> update(const Params& updates, const Params& sums, const Params&) const {
    Params next = tree::map([](const Array& g, const Array& s) { return square(g) + s; }, updates, sums);
    return {tree::map([&](const Array& g, const Array& s) { return where(s > 0, g * rsqrt(s + eps), 0.0); },
                      updates, next),
            next};
  }
};
inline ScaleByRss scale_by_rss(const ScaleByRss& options = {}) { return options; }
[[deprecated("name the options: scale_by_rss({.initial_accumulator_value = 0.1})")]] inline ScaleByRss
scale_by_rss(double initial_accumulator_value, double eps = 1e-7) {
  return {initial_accumulator_value, eps};
}

/// Applies the transformations one after the other; the state is the tuple of their states.
template <class... Transformations>
struct Chain {
  std::tuple<Transformations...> transformations;

  template <class Params>
  auto init(const Params& params, SourceLocation where = SourceLocation::current()) const {
    CallSiteScope here(CallSite::from(where));
    return std::apply([&](const auto&... each) { return std::tuple(each.init(params)...); }, transformations);
  }

  template <class Params, class State>
  std::pair<Params, State> update(const Params& grads, const State& state, const Params& params,
                                  SourceLocation where = SourceLocation::current()) const {
    CallSiteScope here(CallSite::from(where));
    std::pair<Params, State> out(grads, state);
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      auto step = [&](const auto& transformation, auto& part) {
        auto [updates, next] = transformation.update(out.first, part, params);
        out.first = std::move(updates);
        part = std::move(next);
      };
      (step(std::get<i>(transformations), std::get<i>(out.second)), ...);
    }
    (std::index_sequence_for<Transformations...>());
    return out;
  }
};

template <class... Transformations>
Chain<Transformations...> chain(Transformations... transformations) {
  return {std::tuple<Transformations...>(std::move(transformations)...)};
}

}  // namespace lockstep::optim
