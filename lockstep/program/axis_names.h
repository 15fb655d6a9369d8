// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// A parameter of collective operations: one or several names of mesh axes.
struct AxisNames {
  std::vector<std::string> names;
  AxisNames(const char* name) : names{name} {}
  AxisNames(std::string name) : names{std::move(name)} {}
  AxisNames(std::vector<std::string> names) : names(std::move(names)) {}
  AxisNames(std::initializer_list<const char*> names) : names(names.begin(), names.end()) {}
};

}  // namespace lockstep
