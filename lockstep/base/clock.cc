// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/clock.h"

namespace lockstep {

const Clock& Clock::steady() {
  class SteadyClock : public Clock {
    TimePoint now() const override { return std::chrono::steady_clock::now(); }
  };
  static const SteadyClock clock;
  return clock;
}

}  // namespace lockstep
