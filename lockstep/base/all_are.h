// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lockstep {

/// Whether each of the numbers is `number`.
inline bool all_are(const std::vector<std::int64_t>& numbers, std::int64_t number) {
  return std::ranges::all_of(numbers, [number](std::int64_t n) { return n == number; });
}

}  // namespace lockstep
