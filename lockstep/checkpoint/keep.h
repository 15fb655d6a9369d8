// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace lockstep::checkpoint {

/// The steps that are kept after a save: those that at least one rule keeps. Without a rule, all.
struct Keep {
  int last = 0;            ///< how many of the newest
  std::int64_t every = 0;  ///< multiples of this
  int best = 0;            ///< how many with the lowest metric
  bool highest = false;    ///< the highest metric is the best one
};

/// The steps that no rule keeps. The newest is always kept. A step without a metric is never a best
/// one.
std::vector<std::int64_t> to_remove(const Keep& keep,
                                    const std::map<std::int64_t, std::optional<double>>& metric_of_step);

}  // namespace lockstep::checkpoint
