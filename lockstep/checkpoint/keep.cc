// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/keep.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace lockstep::checkpoint {

std::vector<std::int64_t> to_remove(const Keep& keep,
                                    const std::map<std::int64_t, std::optional<double>>& metric_of_step) {
  if (metric_of_step.empty() || (keep.last <= 0 && keep.every <= 0 && keep.best <= 0)) return {};
  std::set<std::int64_t> stay{metric_of_step.rbegin()->first};
  int newest = 0;
  for (auto it = metric_of_step.rbegin(); it != metric_of_step.rend() && newest < keep.last; ++it, ++newest)
    stay.insert(it->first);
  std::vector<std::pair<double, std::int64_t>> by_metric;
  for (const auto& [step, metric] : metric_of_step) {
    if (keep.every > 0 && step % keep.every == 0) stay.insert(step);
    // Of equal ones the newer counts.
    if (metric && !std::isnan(*metric)) by_metric.emplace_back(keep.highest ? -*metric : *metric, -step);
  }
  std::ranges::sort(by_metric);
  for (std::size_t i = 0; i < by_metric.size() && static_cast<int>(i) < keep.best; ++i)
    stay.insert(-by_metric[i].second);
  std::vector<std::int64_t> gone;
  for (const auto& [step, metric] : metric_of_step)
    if (!stay.contains(step)) gone.push_back(step);
  return gone;
}

}  // namespace lockstep::checkpoint
