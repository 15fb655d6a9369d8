// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/collectives/rounds/table.h"
#include "lockstep/collectives/shares.h"

/// How much of a large operation between hosts is in a member's own memory at a time: a few of these sizes,
/// whatever the number of hosts.
namespace lockstep::collectives {

/// The pieces of all parts together, if each piece then has at least kLeastPiece.
inline constexpr std::size_t kStaged = 4 << 20;

/// The limit if pieces would be smaller. Pieces are smaller beyond it: on many hosts, several share a
/// message.
inline constexpr std::size_t kMostStaged = 8 << 20;

/// An algorithm that needs no more memory than this gets whole parts.
inline constexpr std::size_t kMostScratch = 16 << 20;

/// The bytes of a piece, for `parts` parts of `part` bytes: at least `least` if possible.
inline std::size_t piece_bytes(std::size_t part, std::size_t parts, std::size_t least = kLeastPiece) {
  const auto each = [&](std::size_t bytes) { return std::max(bytes / parts / kLine * kLine, kLine); };
  return std::min(part, std::max(each(kStaged), std::min(least, each(kMostStaged))));
}

/// The bytes of a large all-reduce that a carrier processes at a time; the same for all carriers.
inline std::size_t all_reduce_slice(std::size_t total, int hosts, int carriers) {
  const auto n = static_cast<std::size_t>(carriers);
  return std::min({slice_bytes(hosts), round_up((total + n - 1) / n, kLine),
                   std::max(kMostScratch / n / kLine * kLine, kLine)});
}

}  // namespace lockstep::collectives
