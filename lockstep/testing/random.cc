// SPDX-License-Identifier: Apache-2.0
#include "lockstep/testing/random.h"

#include <cstdio>
#include <cstdlib>

namespace lockstep::testing {

Random::Random(std::uint64_t seed) : seed_(seed) {
  if (const char* given = std::getenv("LOCKSTEP_TEST_SEED")) seed_ = std::strtoull(given, nullptr, 10);
  engine_.seed(seed_);
  std::printf("random numbers of LOCKSTEP_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed_));
}

}  // namespace lockstep::testing
