// SPDX-License-Identifier: Apache-2.0
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

namespace internal {

/// Adam's state, whatever the type of the parameters.
struct MomentsRef {
  Array& count;
  tree::TreeRef mu, nu;
};
template <class State>
MomentsRef moments_of(State& state) {
  return {state.count, tree::tree_ref(state.mu), tree::tree_ref(state.nu)};
}
struct AdamNumbers {
  double b1, b2, eps;
};

/// Replaces the gradients by Adam's direction, and the state by the next one.
void adam_direction(tree::TreeRef grads, MomentsRef state, const AdamNumbers& numbers);

/// The same, but by the updates.
void adam_updates(tree::TreeRef grads, MomentsRef state, tree::TreeRef params, const AdamNumbers& numbers,
                  double learning_rate, double weight_decay);

}  // namespace internal

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
    std::pair<Params, AdamState<Params>> out(grads, state);
    internal::adam_updates(tree::tree_ref(out.first), internal::moments_of(out.second),
                           tree::tree_ref(params), {b1, b2, eps}, learning_rate, weight_decay);
    return out;
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

/// Of adam(). `Rate` is double or Schedule (chain.h).
template <class Rate>
struct AdamOptions {
  Rate learning_rate;
  double b1 = 0.9, b2 = 0.999, eps = 1e-8;
};

/// Of adamw().
template <class Rate>
struct AdamWOptions {
  Rate learning_rate;
  double b1 = 0.9, b2 = 0.999, eps = 1e-8, weight_decay = 1e-4;
};

inline Adam adam(double learning_rate) { return {learning_rate}; }
inline Adam adam(const AdamOptions<double>& options) {
  return {options.learning_rate, options.b1, options.b2, options.eps, 0};
}
[[deprecated("name the options: adam({.learning_rate = 1e-3, .b1 = 0.9})")]] inline Adam adam(
    double learning_rate, double b1, double b2 = 0.999, double eps = 1e-8) {
  return {learning_rate, b1, b2, eps, 0};
}

/// `adamw({.learning_rate = 1e-3, .weight_decay = 0.1})`.
inline Adam adamw(const AdamWOptions<double>& options) {
  return {options.learning_rate, options.b1, options.b2, options.eps, options.weight_decay};
}
inline Adam adamw(double learning_rate) { return adamw(AdamWOptions<double>{learning_rate}); }
[[deprecated("name the options: adamw({.learning_rate = 1e-3, .weight_decay = 0.1})")]] inline Adam adamw(
    double learning_rate, double b1, double b2 = 0.999, double eps = 1e-8, double weight_decay = 1e-4) {
  return {learning_rate, b1, b2, eps, weight_decay};
}

}  // namespace lockstep::optim
