#pragma once

#include <optional>
#include <utility>

#include "lockstep/optim/transformation.h"

namespace lockstep::optim {

template <class OpParams>
struct SgdState {
  std::optional<OpParams> trace;  ///< none without momentum
};

/// updates = -learning_rate * g, of the gradients g; with momentum
///   trace' = g + momentum * trace
///   updates = -learning_rate * trace', or -learning_rate * (g + momentum * trace') if nesterov.
struct Sgd {
  double learning_rate;
  double momentum = 0;
  bool nesterov = false;

  template <class OpParams>
  SgdState<OpParams> init(const OpParams& params, SourceLocation where = SourceLocation::current()) const {
    CallSiteScope here(CallSite::from(where));
    if (momentum == 0) return {};
    return {internal::zeros_of(params)};
  }

  template <class OpParams>
  std::pair<OpParams, SgdState<OpParams>> update(const OpParams& grads, const SgdState<OpParams>& state,
                                                 SourceLocation where = SourceLocation::current()) const {
    CallSiteScope here(CallSite::from(where));
    auto scaled = [&](const OpParams& tree) {
      return tree::map([&](const Array& u) { return -learning_rate * u; }, tree);
    };
    if (!state.trace) return {scaled(grads), {}};
    auto follow = [&](const Array& g, const Array& t) { return g + momentum * t; };
    OpParams trace = tree::map(follow, grads, *state.trace);
    OpParams updates = scaled(nesterov ? tree::map(follow, grads, trace) : trace);
    return {std::move(updates), {std::move(trace)}};
  }

  /// As others are called; the parameters are not used.
  template <class OpParams>
  std::pair<OpParams, SgdState<OpParams>> update(const OpParams& grads, const SgdState<OpParams>& state,
                                                 const OpParams&,
                                                 SourceLocation where = SourceLocation::current()) const {
    return update(grads, state, where);
  }
};

inline Sgd sgd(double learning_rate, double momentum = 0, bool nesterov = false) {
  return {learning_rate, momentum, nesterov};
}

}  // namespace lockstep::optim
