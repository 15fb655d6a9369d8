// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep {

/// The numbers of elements added before and after each dimension; negative numbers remove elements.
using Padding = std::vector<std::pair<std::int64_t, std::int64_t>>;

}  // namespace lockstep
