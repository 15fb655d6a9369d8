// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>

#include "lockstep/optim/transformation.h"

namespace lockstep::optim {

template <class Params>
struct SgdState {
  std::optional<Params> trace;  ///< none without momentum
};

/// For gradients g: updates = -learning_rate * g. With momentum:
///   trace' = g + momentum * trace
///   updates = -learning_rate * trace', or -learning_rate * (g + momentum * trace') if nesterov.
struct Sgd {
  double learning_rate;
  double momentum = 0;
  bool nesterov = false;

  template <class Params>
  SgdState<Params> init(const Params& params, SourceLocation where = SourceLocation::current()) const {
    CallSiteScope here(CallSite::from(where));
    if (momentum == 0) return {};
    return {internal::zeros_of(params)};
  }

  template <class Params>
  std::pair<Params, SgdState<Params>> update(const Params& grads, const SgdState<Params>& state,
                                             SourceLocation where = SourceLocation::current()) const {
    CallSiteScope here(CallSite::from(where));
    auto scaled = [&](const Params& tree) {
      return tree::map([&](const Array& u) { return -learning_rate * u; }, tree);
    };
    if (!state.trace) return {scaled(grads), {}};
    auto follow = [&](const Array& g, const Array& t) { return g + momentum * t; };
    Params trace = tree::map(follow, grads, *state.trace);
    Params updates = scaled(nesterov ? tree::map(follow, grads, trace) : trace);
    return {std::move(updates), {std::move(trace)}};
  }

  /// The signature of other optimizers' update; the parameters are not used.
  template <class Params>
  std::pair<Params, SgdState<Params>> update(const Params& grads, const SgdState<Params>& state,
                                             const Params&,
                                             SourceLocation where = SourceLocation::current()) const {
    return update(grads, state, where);
  }
};

/// Plain gradient descent, or with momentum: `sgd({.learning_rate = 0.1, .momentum = 0.9})`.
inline Sgd sgd(double learning_rate) { return {learning_rate}; }
inline Sgd sgd(const Sgd& options) { return options; }
[[deprecated("name the options: sgd({.learning_rate = 0.1, .momentum = 0.9})")]] inline Sgd sgd(
    double learning_rate, double momentum, bool nesterov = false) {
  return {learning_rate, momentum, nesterov};
}

}  // namespace lockstep::optim
