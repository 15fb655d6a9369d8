// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/collectives/plan.h"

/// The distribution of an operation's work within a host.
namespace lockstep::collectives {

inline constexpr std::size_t kStreamFrom = 8 << 20;  ///< outputs of at least this size are written past the
                                                     ///< caches
inline constexpr std::size_t kLine = 64;

inline std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

/// One member's part of `size` bytes that n members reduce together.
struct Share {
  std::size_t begin, size;
};
inline Share share_of(std::size_t member, std::size_t n, std::size_t size) {
  const std::size_t each = round_up((size + n - 1) / n, kLine);
  const std::size_t begin = std::min(member * each, size);
  return {begin, std::min(each, size - begin)};
}

/// The rank that sends to `rank` in a permute; -1 if there is none.
inline int source_of(const Collective& collective, int rank) {
  for (auto [from, to] : collective.pairs) {
    if (to == rank) return from;
  }
  return -1;
}

inline bool sends(const Collective& collective, int rank) {
  switch (collective.kind) {
    case Kind::kBroadcast:
      return rank == collective.root;
    case Kind::kPermute:
      return std::any_of(collective.pairs.begin(), collective.pairs.end(),
                         [&](auto pair) { return pair.first == rank && pair.second != rank; });
    default:
      return true;
  }
}

}  // namespace lockstep::collectives
