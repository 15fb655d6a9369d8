// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::fuzz {

/// Numbers by seed, the same on every machine: SplitMix64. Each draw is one call, so that a program follows
/// from its seed by the generator's text alone.
class Random {
 public:
  /// Seeds that follow each other give sequences that have nothing in common.
  explicit Random(std::uint64_t seed) : state_(seed) { state_ = next() ^ (next() << 1); }

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

  /// 0 to n - 1; n is above 0.
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(n));
  }

  /// low to high, both included.
  std::int64_t within(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }

  /// True in so many of a hundred.
  bool percent(int n) { return below(100) < n; }

  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(below(static_cast<std::int64_t>(from.size())))];
  }

 private:
  std::uint64_t state_;
};

}  // namespace lockstep::fuzz
