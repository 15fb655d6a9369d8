// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/options.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {

/// The option's variable, and JAX's.
template <class T>
std::vector<std::string> variables_of(const Option<T>& option) {
  std::string own(option.variable);
  std::string jax = option.jax.empty() ? "JAX_" + own.substr(sizeof "LOCKSTEP") : std::string(option.jax);
  return {std::move(own), std::move(jax)};
}

template <class T>
std::optional<Variable> find_variable(const Environment& environment, const Option<T>& option) {
  return find_variable(environment, variables_of(option));
}

/// The argument of `initialize()`, or else the value of the option's variable; nullopt if neither is given.
/// Throws InitializationError for a value that is not of the option's type or out of its range.
std::optional<int> find_value(const Environment& environment, const Option<int>& option,
                              const std::optional<int>& argument = {});
std::optional<std::int64_t> find_value(const Environment& environment, const Option<std::int64_t>& option,
                                       const std::optional<std::int64_t>& argument = {});
std::optional<double> find_value(const Environment& environment, const Option<double>& option,
                                 const std::optional<double>& argument = {});

/// A variable that means yes (1, true, t, yes, y, on) or no (0, false, f, no, n, off).
std::optional<bool> find_value(const Environment& environment, const Option<bool>& option,
                               const std::optional<bool>& argument = {});
std::optional<std::string> find_value(const Environment& environment, const Option<std::string_view>& option,
                                      const std::optional<std::string>& argument = {});
std::optional<std::chrono::seconds> find_value(const Environment& environment, const Option<int>& option,
                                               const std::optional<std::chrono::seconds>& argument);

/// The same, with the option's default if neither is given.
template <class T>
T value_of(const Environment& environment, const Option<T>& option) {
  return find_value(environment, option).value_or(option.otherwise);
}
template <class T, class Argument>
Argument value_of(const Environment& environment, const Option<T>& option,
                  const std::optional<Argument>& argument) {
  return find_value(environment, option, argument).value_or(Argument(option.otherwise));
}

}  // namespace lockstep::cluster
