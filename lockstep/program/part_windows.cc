// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/part_windows.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "lockstep/base/floor_div.h"

namespace lockstep::ir {
namespace {

/// The fixed cost of a collective, in elements along the dimension.
constexpr std::int64_t kPerCollective = 1;

}  // namespace

WindowPlan plan_windows(const PartWindows& windows, std::int64_t parts, std::int64_t size) {
  std::map<std::pair<std::int64_t, std::int64_t>, WindowRound> rounds;
  // The windows of devices at this distance begin in different parts.
  const std::int64_t step = std::abs(windows.step);
  const std::int64_t apart = step == 0 ? parts : (size + step - 1) / step;
  for (std::int64_t to = 0; to < parts; ++to) {
    const std::int64_t begin = windows.begin(to), end = begin + windows.count, first = floor_div(begin, size);
    for (std::int64_t from = windows.wraps ? first : std::max<std::int64_t>(first, 0);
         from * size < end && (windows.wraps || from < parts); ++from) {
      const std::int64_t start = from * size;
      const WindowSegment segment = {(from % parts + parts) % parts, to, start, std::max(begin, start),
                                     std::min(end, start + size)};
      if (from == to || segment.end <= segment.begin) continue;
      WindowRound& round = rounds[{from - first, to % apart}];
      round.segments.push_back(segment);
      round.length = std::max(round.length, segment.end - segment.begin);
    }
  }
  WindowPlan plan;
  for (auto& [key, round] : rounds) {
    plan.exchanged.elements += round.length;
    plan.rounds.push_back(std::move(round));
  }
  const std::int64_t others = (parts - 1) * size;
  plan.exchanged.collectives = static_cast<std::int64_t>(plan.rounds.size());
  plan.gathers =
      plan.exchanged.elements + kPerCollective * plan.exchanged.collectives > others + kPerCollective;
  if (plan.gathers) plan.exchanged = {others, 1};
  return plan;
}

}  // namespace lockstep::ir
