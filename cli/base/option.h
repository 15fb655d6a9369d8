// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <type_traits>

#include "lockstep/base/options.h"

namespace lockstep::cli {

/// Adds an option of `initialize()` to a command, with its variable, range and default: "--heartbeat-timeout
/// SECONDS". `name` is for those that the command calls otherwise.
template <class T, class Value>
CLI::Option* add_option(CLI::App& command, const Option<T>& option, Value& value, std::string name = {}) {
  if (name.empty()) {
    name = fmt::format("--{}", option.argument);
    std::replace(name.begin(), name.end(), '_', '-');
  }
  const std::string variable(option.variable);
  std::string help(option.help);
  CLI::Option* added = command.add_option(name, value);
  if constexpr (std::is_arithmetic_v<T>) {
    if (option.otherwise >= option.least) help += fmt::format(" (default: {})", option.otherwise);
    added->check(CLI::Range(option.least, option.most).description(""));
  }
  added->description(help);
  return added->envname(variable)->option_text(fmt::format("{} (Env: {})", option.value, variable));
}

}  // namespace lockstep::cli
