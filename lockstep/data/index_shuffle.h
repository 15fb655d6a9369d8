// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace lockstep::data {

/// A permutation of the numbers 0 to n - 1 determined by the seed, without storing it. It is the same on
/// every machine, and each element is computed independently, in constant memory and, on average, constant
/// time (some 50 ns; constructing it, some 20 ns, and up to 700 ns for n up to kSmall).
class IndexShuffle {
 public:
  /// n is at most 2^62; throws ShapeError for larger ones.
  IndexShuffle(std::uint64_t n, std::uint64_t seed);

  /// The element at position i, which is below n.
  std::uint64_t operator()(std::uint64_t i) const;

  /// Up to this n the numbers are shuffled one by one, and stored.
  static constexpr std::uint64_t kSmall = 128;

 private:
  static constexpr int kRounds = 8;

  std::uint64_t n_, rows_, columns_;
  std::array<std::uint64_t, kRounds> keys_;
  std::array<std::uint8_t, kSmall> small_;  // the permutation itself, for small n
};

/// IndexShuffle(n, seed)(i).
std::uint64_t index_shuffle(std::uint64_t i, std::uint64_t n, std::uint64_t seed);

}  // namespace lockstep::data
