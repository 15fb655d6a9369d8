// SPDX-License-Identifier: Apache-2.0
#pragma once

// Shared by the tests of this folder.

#include <cstdint>
#include <vector>

#include "lockstep/tree/leaves.h"

namespace lockstep::test {

/// The values of arrays of integers.
inline std::vector<int> numbers(const std::vector<Array>& arrays) {
  std::vector<int> values;
  for (const Array& array : arrays) values.push_back(array.item<std::int32_t>());
  return values;
}

template <class Tree>
std::vector<int> leaves_of(const Tree& tree) {
  return numbers(tree::leaves(tree));
}

}  // namespace lockstep::test
