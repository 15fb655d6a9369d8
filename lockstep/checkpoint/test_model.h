// SPDX-License-Identifier: Apache-2.0
#pragma once

// A model of a run: its steps, and what docs/checkpoints.md says of them. It touches no store.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "lockstep/checkpoint/keep.h"

namespace lockstep::test {

/// A step that is there.
struct Step {
  int seed = 0;  ///< of its arrays
  std::int64_t order = 0;
  std::optional<double> metric;
  bool unreadable = false;  ///< its manifest
  bool incomplete = false;  ///< its parts
  bool linked = false;
};

using Steps = std::map<std::int64_t, Step>;

/// The steps that the rules do not keep after this one was saved.
inline std::set<std::int64_t> superseded(const Steps& steps, const checkpoint::Keep& keep,
                                         std::int64_t saved) {
  std::set<std::int64_t> gone;
  if (keep.last == 0 && keep.every == 0 && keep.best == 0) return gone;
  for (const auto& [step, known] : steps) {
    if (known.unreadable || step == saved) continue;
    int later = 0, better = 0;
    for (const auto& [other, that] : steps) {
      if (that.unreadable || other == step) continue;
      const bool after = std::pair(that.order, other) > std::pair(known.order, step);
      later += after;
      if (!that.metric || !known.metric) continue;
      const double by = (*that.metric - *known.metric) * (keep.highest ? -1 : 1);
      better += by < 0 || (by == 0 && after);
    }
    const bool stays = later == 0 || later < keep.last || (keep.every > 0 && step % keep.every == 0) ||
                       (known.metric && better < keep.best);
    if (!stays) gone.insert(step);
  }
  return gone;
}

/// The step that a restart continues from; nullopt if that is an error; -1 if there is none.
inline std::optional<std::int64_t> latest(const Steps& steps) {
  std::optional<std::pair<std::int64_t, std::int64_t>> last;
  std::int64_t highest_unreadable = -1;
  for (const auto& [step, known] : steps) {
    if (known.unreadable)
      highest_unreadable = step;
    else
      last = std::max(last, std::optional(std::pair(known.order, step)));
  }
  if (highest_unreadable > (last ? last->second : -1)) return std::nullopt;
  return last ? last->second : -1;
}

}  // namespace lockstep::test
