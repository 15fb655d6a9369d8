// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <system_error>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"

namespace lockstep::cluster {
namespace {

/// The number, if `value` is one in the range of the option. Throws InitializationError otherwise: `from` has
/// the value `text`.
template <class T>
T in_range(const Option<T>& option, std::optional<T> value, std::string_view from, std::string_view text) {
  if (value && *value >= option.least && *value <= option.most) return *value;
  fail<InitializationError>("[initialize] {} is '{}': expected {}", from, shown(text),
                            describe_range(option.least, option.most));
}

template <class T>
std::optional<T> read_number(std::string_view text) {
  T value = {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <class T>
std::optional<T> find_number(const Environment& environment, const Option<T>& option,
                             const std::optional<T>& argument) {
  if (argument) return in_range(option, argument, option.argument, fmt::to_string(*argument));
  const auto found = find_variable(environment, option);
  if (!found) return std::nullopt;
  return in_range(option, read_number<T>(found->value), found->name, found->value);
}

}  // namespace

std::optional<int> find_value(const Environment& environment, const Option<int>& option,
                              const std::optional<int>& argument) {
  return find_number(environment, option, argument);
}

std::optional<std::int64_t> find_value(const Environment& environment, const Option<std::int64_t>& option,
                                       const std::optional<std::int64_t>& argument) {
  return find_number(environment, option, argument);
}

std::optional<double> find_value(const Environment& environment, const Option<double>& option,
                                 const std::optional<double>& argument) {
  return find_number(environment, option, argument);
}

std::optional<bool> find_value(const Environment& environment, const Option<bool>& option,
                               const std::optional<bool>& argument) {
  if (argument) return argument;
  const auto found = find_variable(environment, option);
  if (!found) return std::nullopt;
  std::string word = found->value;
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* yes : {"1", "true", "t", "yes", "y", "on"})
    if (word == yes) return true;
  for (const char* no : {"0", "false", "f", "no", "n", "off"})
    if (word == no) return false;
  fail<InitializationError>("[initialize] {} is '{}': expected 1, true, yes or on, or 0, false, no or off",
                            found->name, shown(found->value));
}

std::optional<std::string> find_value(const Environment& environment, const Option<std::string_view>& option,
                                      const std::optional<std::string>& argument) {
  if (argument) return argument;
  const auto found = find_variable(environment, option);
  return found ? std::optional(found->value) : std::nullopt;
}

std::optional<std::chrono::seconds> find_value(const Environment& environment, const Option<int>& option,
                                               const std::optional<std::chrono::seconds>& argument) {
  std::optional<int> value;
  if (argument) {
    const auto count = argument->count();
    value =
        in_range(option, std::in_range<int>(count) ? std::optional(static_cast<int>(count)) : std::nullopt,
                 option.argument, fmt::to_string(count));
  } else {
    value = find_value(environment, option);
  }
  return value ? std::optional(std::chrono::seconds(*value)) : std::nullopt;
}

}  // namespace lockstep::cluster
