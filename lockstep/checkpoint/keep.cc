// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/keep.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace lockstep::checkpoint {

bool is_earlier(const SavedStep& a, const SavedStep& b) {
  return std::pair(a.order, a.step) < std::pair(b.order, b.step);
}

std::vector<std::int64_t> to_remove(const Keep& keep, std::vector<SavedStep> steps, std::int64_t saved) {
  if (keep.last <= 0 && keep.every <= 0 && keep.best <= 0) return {};
  std::ranges::sort(steps, [](const SavedStep& a, const SavedStep& b) { return is_earlier(b, a); });
  std::set<std::int64_t> stay{saved};
  std::vector<std::pair<double, std::int64_t>> by_metric;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto& [step, order, metric, nonce] = steps[i];
    if (i == 0 || static_cast<int>(i) < keep.last || (keep.every > 0 && step % keep.every == 0))
      stay.insert(step);
    if (metric && !std::isnan(*metric)) by_metric.emplace_back(keep.highest ? -*metric : *metric, step);
  }
  std::ranges::stable_sort(by_metric, {}, [](const auto& each) { return each.first; });
  for (std::size_t i = 0; i < by_metric.size() && static_cast<int>(i) < keep.best; ++i)
    stay.insert(by_metric[i].second);
  std::vector<std::int64_t> gone;
  for (const SavedStep& each : steps)
    if (!stay.contains(each.step)) gone.push_back(each.step);
  std::ranges::sort(gone);
  return gone;
}

}  // namespace lockstep::checkpoint
