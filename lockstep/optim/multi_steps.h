// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "lockstep/optim/transformation.h"

namespace lockstep::optim {

template <class Inner, class Params>
struct MultiStepsState {
  Array mini_step;  ///< gradients since the last update: an i32 scalar
  Inner inner;
  Params mean;  ///< the mean of these gradients
};

/// Calls the optimizer every every_k steps with the mean of the gradients since its last call. The updates of
/// the steps between are zeros.
template <class Optimizer>
struct MultiSteps {
  Optimizer inner;
  std::int64_t every_k;

  template <class Params>
  auto init(const Params& params, SourceLocation where = SourceLocation::current()) const {
    CallSiteScope here(CallSite::from(where));
    using Inner = decltype(inner.init(params));
    return MultiStepsState<Inner, Params>{internal::zero_count(tree::leaves(params)), inner.init(params),
                                          internal::zeros_of(params)};
  }

  template <class Params, class State>
  std::pair<Params, State> update(const Params& grads, const State& state, const Params& params,
                                  SourceLocation where = SourceLocation::current()) const {
    CallSiteScope here(CallSite::from(where));
    const Array count = state.mini_step + 1, due = count == every_k;
    Params mean =
        tree::map([&](const Array& m, const Array& g) { return m + (g - m) / astype(count, g.dtype()); },
                  state.mean, grads);
    auto [updates, next] = inner.update(mean, state.inner, params);
    auto chosen = [&](const Array& now, const Array& before) { return lockstep::where(due, now, before); };
    State out;
    out.mini_step = lockstep::where(due, 0, count);
    out.inner = tree::map(chosen, next, state.inner);
    out.mean = tree::map([&](const Array& m) { return lockstep::where(due, zeros_like(m), m); }, mean);
    return {tree::map([&](const Array& u) { return lockstep::where(due, u, zeros_like(u)); }, updates),
            std::move(out)};
  }
};
template <class Optimizer>
MultiSteps<Optimizer> multi_steps(Optimizer optimizer, std::int64_t every_k) {
  return {std::move(optimizer), every_k};
}

}  // namespace lockstep::optim
