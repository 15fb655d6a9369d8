// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <random>

namespace lockstep::testing {

/// The random numbers of a test, the same in each run. LOCKSTEP_TEST_SEED sets another seed; the first use in
/// a test prints the seed, so that a failure can be repeated.
class Random {
 public:
  explicit Random(std::uint64_t seed = 1);

  std::uint64_t seed() const { return seed_; }

  /// 0 to count - 1.
  int below(int count) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(count)); }

  /// A random time from now on, to the microsecond.
  std::chrono::microseconds within(std::chrono::microseconds longest) {
    return std::chrono::microseconds(below(static_cast<int>(longest.count()) + 1));
  }

 private:
  std::uint64_t seed_;
  std::mt19937_64 engine_;
};

}  // namespace lockstep::testing
