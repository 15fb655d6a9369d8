#pragma once

#include <utility>

#include "lockstep/optim/transformation.h"

namespace lockstep::optim {

template <class Params>
struct AdamState {
  Array count;  ///< the number of updates done: an i32 scalar
  Params mu;    ///< the decaying mean of the gradients
  Params nu;    ///< the decaying mean of their squares
};

/// Adam (Kingma and Ba, 2014), for gradients g:
///   mu' = b1 * mu + (1 - b1) * g          count' = count + 1
///   nu' = b2 * nu + (1 - b2) * g²
///   direction = (mu' / (1 - b1^count')) / (sqrt(nu' / (1 - b2^count')) + eps)
///   updates = -learning_rate * direction
/// With weight_decay (AdamW: Loshchilov and Hutter, 2017):
///   updates = -learning_rate * (direction + weight_decay * params).
struct Adam {
  double learning_rate;
  double b1 = 0.9;
  double b2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;

  template <class Params>
  AdamState<Params> init(const Params& params, SourceLocation where = SourceLocation::current()) const {
    CallSiteScope here(CallSite::from(where));
    return {internal::zero_count(tree::leaves(params)), internal::zeros_of(params),
            internal::zeros_of(params)};
  }

  template <class Params>
  std::pair<Params, AdamState<Params>> update(const Params& grads, const AdamState<Params>& state,
                                              const Params& params,
                                              SourceLocation where = SourceLocation::current()) const {
    CallSiteScope here(CallSite::from(where));
    AdamState<Params> next;
    next.count = internal::incremented(state.count);
    next.mu =
        tree::map([&](const Array& g, const Array& m) { return (1 - b1) * g + b1 * m; }, grads, state.mu);
    next.nu = tree::map([&](const Array& g, const Array& n) { return (1 - b2) * square(g) + b2 * n; }, grads,
                        state.nu);
    const Array mu_scale = internal::bias_scale(b1, next.count);
    const Array nu_scale = internal::bias_scale(b2, next.count);
    Params updates = tree::map(
        [&](const Array& m, const Array& n, const Array& p) {
          Array direction = (m * mu_scale) / (sqrt(n * nu_scale) + eps);
          if (weight_decay != 0) direction = direction + weight_decay * p;
          return -learning_rate * direction;
        },
        next.mu, next.nu, params);
    return {std::move(updates), std::move(next)};
  }

  /// Without parameters. Throws Error if weight_decay is not 0, because weight decay needs them.
  template <class Params>
  std::pair<Params, AdamState<Params>> update(const Params& grads, const AdamState<Params>& state,
                                              SourceLocation where = SourceLocation::current()) const {
    if (weight_decay != 0) {
      throw Error(
          "[adamw] update needs the parameters, because they decay: call update(grads, state, params)");
    }
    return update(grads, state, grads, where);
  }
};

inline Adam adam(double learning_rate, double b1 = 0.9, double b2 = 0.999, double eps = 1e-8) {
  return {learning_rate, b1, b2, eps, 0};
}

inline Adam adamw(double learning_rate, double b1 = 0.9, double b2 = 0.999, double eps = 1e-8,
                  double weight_decay = 1e-4) {
  return {learning_rate, b1, b2, eps, weight_decay};
}

}  // namespace lockstep::optim
