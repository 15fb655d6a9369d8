// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

/// Sets of mesh axes by name, as in Aval::varying: sorted, each once.
namespace lockstep::ir {

inline std::vector<std::string> both(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::string> out;
  std::ranges::set_union(a, b, std::back_inserter(out));
  return out;
}

/// The elements of `a` that are not in `b`.
inline std::vector<std::string> minus(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::string> out;
  std::ranges::set_difference(a, b, std::back_inserter(out));
  return out;
}

}  // namespace lockstep::ir
