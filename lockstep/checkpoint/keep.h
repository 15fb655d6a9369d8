#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace lockstep::checkpoint {

/// Which steps stay when a new one has been saved: those that any of the rules keeps. Without a rule, all.
struct Keep {
  int last = 0;            ///< the newest so many
  std::int64_t every = 0;  ///< those whose number this divides
  int best = 0;            ///< so many with the lowest metric
  bool highest = false;    ///< the highest metric is the best one
};

/// Those of the steps that no rule keeps. The newest always stays. A step without a metric is never a best
/// one.
std::vector<std::int64_t> to_remove(const Keep& keep,
                                    const std::map<std::int64_t, std::optional<double>>& metric_of_step);

}  // namespace lockstep::checkpoint
