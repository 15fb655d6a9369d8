#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/collectives/rounds/table.h"
#include "lockstep/collectives/shares.h"

/// How much of a large operation between hosts is in a member's own memory at a time. On however many hosts
/// it is a few of these.
namespace lockstep::collectives {

/// All parts' pieces together, where that leaves no less of each than kLeastPiece,
inline constexpr std::size_t kStaged = 4 << 20;

/// and where it does, up to so much. Pieces are smaller then: on many hosts several go in a message.
inline constexpr std::size_t kMostStaged = 8 << 20;

/// An algorithm that needs no more than this is given parts whole.
inline constexpr std::size_t kMostScratch = 16 << 20;

/// Of each of `parts` parts of `part` bytes, so much at a time: no less than `least` where that is possible.
inline std::size_t piece_bytes(std::size_t part, std::size_t parts, std::size_t least = kLeastPiece) {
  const auto each = [&](std::size_t bytes) { return std::max(bytes / parts / kLine * kLine, kLine); };
  return std::min(part, std::max(each(kStaged), std::min(least, each(kMostStaged))));
}

/// What a carrier of a large all-reduce carries at a time: the same for all carriers.
inline std::size_t all_reduce_slice(std::size_t total, int hosts, int carriers) {
  const auto n = static_cast<std::size_t>(carriers);
  return std::min({slice_bytes(hosts), round_up((total + n - 1) / n, kLine),
                   std::max(kMostScratch / n / kLine * kLine, kLine)});
}

}  // namespace lockstep::collectives
