// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "lockstep/optim/transformation.h"

namespace lockstep::optim {

/// The parameters of lookahead: the fast ones, at which gradients are computed, and the slow ones, which are
/// the result.
template <class Params>
struct LookaheadParams {
  Params fast, slow;

  static LookaheadParams init_synced(const Params& params) { return {params, params}; }
};

template <class Inner>
struct LookaheadState {
  Inner fast_state;
  Array steps_since_sync;  ///< an i32 scalar
};

/// Lookahead (Zhang and others, 2019). The optimizer updates the fast parameters. Every sync_period steps,
/// the slow parameters move towards the fast ones by the fraction slow_step_size of the distance, and the
/// fast ones continue from there. `update` takes the gradients at the fast parameters and returns updates for
/// both:
///   auto params = LookaheadParams<Model>::init_synced(model);
///   auto [updates, next] = optimizer.update(grads, state, params);
///   params = apply_updates(params, updates);
template <class Optimizer>
struct Lookahead {
  Optimizer fast_optimizer;
  std::int64_t sync_period;
  double slow_step_size;
  bool reset_state = false;  ///< start with a fresh state of the optimizer after each period

  template <class Params>
  auto init(const LookaheadParams<Params>& params, SourceLocation where = SourceLocation::current()) const {
    CallSiteScope here(CallSite::from(where));
    return LookaheadState<decltype(fast_optimizer.init(params.fast))>{
        fast_optimizer.init(params.fast), internal::zero_count(tree::leaves(params.fast))};
  }

  template <class Params, class State>
  std::pair<LookaheadParams<Params>, State> update(const Params& grads, const State& state,
                                                   const LookaheadParams<Params>& params,
                                                   SourceLocation where = SourceLocation::current()) const {
    CallSiteScope here(CallSite::from(where));
    auto [updates, next] = fast_optimizer.update(grads, state.fast_state, params.fast);
    const Array due = state.steps_since_sync == sync_period - 1;
    // The distance of the fast parameters from the slow ones, at steps that synchronize them.
    const Params apart = tree::map(
        [&](const Array& f, const Array& u, const Array& s) {
          const Array distance = f + u - s;
          return lockstep::where(due, distance, zeros_like(distance));
        },
        params.fast, updates, params.slow);
    if (reset_state) {
      next = tree::map([&](const Array& now, const Array& fresh) { return lockstep::where(due, fresh, now); },
                       next, fast_optimizer.init(params.fast));
    }
    return {{tree::map([&](const Array& u, const Array& d) { return u - (1 - slow_step_size) * d; }, updates,
                       apart),
             tree::map([&](const Array& d) { return slow_step_size * d; }, apart)},
            {std::move(next), lockstep::where(due, 0, state.steps_since_sync + 1)}};
  }
};

/// Throws Error if sync_period is below 1.
template <class Optimizer>
Lookahead<Optimizer> lookahead(Optimizer fast_optimizer, std::int64_t sync_period, double slow_step_size,
                               bool reset_state = false) {
  if (sync_period < 1)
    throw Error("[lookahead] expected a period of 1 or more, got " + std::to_string(sync_period));
  return {std::move(fast_optimizer), sync_period, slow_step_size, reset_state};
}

}  // namespace lockstep::optim
