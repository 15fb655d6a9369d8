// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

namespace lockstep {

/// Reads environment variables; tests use another implementation.
class Environment {
 public:
  virtual ~Environment() = default;

  /// The variable's value, or nullopt if it is not set. An empty value is a value.
  virtual std::optional<std::string> get(const std::string& name) const = 0;

  /// The environment of this process.
  static const Environment& process();
};

/// An environment of given variables.
class MapEnvironment : public Environment {
 public:
  explicit MapEnvironment(std::map<std::string, std::string> variables) : variables_(std::move(variables)) {}
  std::optional<std::string> get(const std::string& name) const override {
    auto it = variables_.find(name);
    if (it == variables_.end()) return std::nullopt;
    return it->second;
  }

 private:
  std::map<std::string, std::string> variables_;
};

}  // namespace lockstep
