#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep {

/// The elements before, behind and between in each dimension; negative ones before and behind cut.
using Padding = std::vector<std::pair<std::int64_t, std::int64_t>>;

}  // namespace lockstep
