// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::checkpoint {

/// The steps that are kept after a save: those that at least one rule keeps. Without a rule, all.
struct Keep {
  int last = 0;            ///< how many of those saved last
  std::int64_t every = 0;  ///< multiples of this
  int best = 0;            ///< how many with the lowest metric
  bool highest = false;    ///< the highest metric is the best one
};

/// A step of a run.
struct SavedStep {
  std::int64_t step = 0;
  std::int64_t order = 0;  ///< Manifest::order
  std::optional<double> metric;
  std::string nonce;  ///< of the save that wrote it
};

/// Whether a was saved before b. Steps without a known order count by their numbers, and as the earlier ones.
bool is_earlier(const SavedStep& a, const SavedStep& b);

/// The steps that no rule keeps. `saved`, which has just been saved, and the last one are always kept. A step
/// without a metric is never a best one; of equal ones the later saved is better.
std::vector<std::int64_t> to_remove(const Keep& keep, std::vector<SavedStep> steps, std::int64_t saved);

}  // namespace lockstep::checkpoint
