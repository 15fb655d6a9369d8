// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>

#include "lockstep/watch/layout.h"

namespace lockstep::watch {

/// The clock of this machine's recorders: the processor's counter if it runs at one speed on all cores,
/// because reading it takes a quarter of the time.
Clock machine_clock();

inline Ticks monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<Ticks>(now.tv_sec) * 1'000'000'000 + static_cast<Ticks>(now.tv_nsec);
}

inline Ticks ticks(Clock clock) {
#if defined(__x86_64__)
  // Not __rdtsc: its header adds a second to the compilation of each source file that includes it.
  if (clock == Clock::kTsc) return __builtin_ia32_rdtsc();
#endif
  return monotonic_ns();
}

/// Converts ticks of a process on this machine to the machine's monotonic clock. It calibrates itself and
/// becomes more exact over time; the first use of a new one blocks for 20 ms.
class TickClock {
 public:
  explicit TickClock(Clock clock);
  Clock clock() const { return clock_; }
  Ticks now() const { return ticks(clock_); }
  double seconds(Ticks from, Ticks until);  ///< 0 if `until` is earlier
  std::int64_t to_monotonic_ns(Ticks at);

  /// Improves the precision of `to_monotonic_ns` from now on. Between two calibrations all times keep their
  /// order.
  void calibrate();

 private:
  Clock clock_;
  Ticks first_, last_;  ///< `last_`: at the last calibration
  std::uint64_t first_ns_;
  double ns_per_tick_ = 1;
};

}  // namespace lockstep::watch
