// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <variant>

#include "lockstep/optim/schedules.h"
#include "lockstep/optim/transformation.h"

namespace lockstep::optim {

/// Named numbers from which an optimizer is made.
class Hyperparams {
 public:
  explicit Hyperparams(std::map<std::string, Array> values) : values_(std::move(values)) {}

  /// The number, as a scalar. Throws Error if there is none of this name.
  const Array& at(const std::string& name) const;

  /// The number as a schedule, for parameters that take a learning rate.
  Schedule operator[](const std::string& name) const;

 private:
  std::map<std::string, Array> values_;
};

template <class Inner>
struct InjectHyperparamsState {
  Array count;
  std::map<std::string, Array> hyperparams;  ///< the values of the last update: scalars of f32, or of
                                             ///< f64 if the first parameter is
  Inner inner_state;
};

/// Numbers, or schedules of them, by name.
using HyperparamValues = std::map<std::string, std::variant<double, Schedule>>;

namespace internal {
/// The values at this count for these parameters: schedules are evaluated, numbers come from the state.
std::map<std::string, Array> hyperparams_at(const HyperparamValues& values, const Array& count,
                                            const std::map<std::string, Array>& state,
                                            std::span<const Array> params);
}  // namespace internal

/// An optimizer with its numbers in its state. They can be read, and changed between steps without compiling
/// again: state.hyperparams["learning_rate"] = full({}, 1e-3). Schedules are evaluated at the number of
/// updates done.
template <class Make>
struct InjectHyperparams {
  Make make;  ///< (const Hyperparams&) -> optimizer
  HyperparamValues values;

  template <class Params>
  auto init(const Params& params, SourceLocation where = SourceLocation::current()) const {
    CallSiteScope here(CallSite::from(where));
    const Array count = internal::zero_count(tree::leaves(params));
    auto numbers = internal::hyperparams_at(values, count, {}, tree::leaves(params));
    auto inner = make(Hyperparams(numbers)).init(params);
    return InjectHyperparamsState<decltype(inner)>{count, std::move(numbers), std::move(inner)};
  }

  template <class Params, class State>
  std::pair<Params, State> update(const Params& grads, const State& state, const Params& params,
                                  SourceLocation where = SourceLocation::current()) const {
    CallSiteScope here(CallSite::from(where));
    auto numbers = internal::hyperparams_at(values, state.count, state.hyperparams, tree::leaves(params));
    auto [updates, next] = make(Hyperparams(numbers)).update(grads, state.inner_state, params);
    return {std::move(updates), {internal::incremented(state.count), std::move(numbers), std::move(next)}};
  }
};

///   auto optimizer = inject_hyperparams([](const Hyperparams& h) { return adam(h["learning_rate"]); },
///                                       {{"learning_rate", 1e-3}});
template <class Make>
InjectHyperparams<Make> inject_hyperparams(Make make, HyperparamValues values) {
  return {std::move(make), std::move(values)};
}

}  // namespace lockstep::optim
