#pragma once

#include <ctime>

#include "lockstep/watch/layout.h"

namespace lockstep::watch {

/// What this machine's recorders count in: the processor's counter where it runs at one speed on all cores,
/// for it is read in a quarter of the time.
Clock machine_clock();

inline Ticks monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<Ticks>(now.tv_sec) * 1'000'000'000 + static_cast<Ticks>(now.tv_nsec);
}

inline Ticks ticks(Clock clock) {
#if defined(__x86_64__)
  // Not __rdtsc: the header that has it takes a second of each source file that sees it.
  if (clock == Clock::kTsc) return __builtin_ia32_rdtsc();
#endif
  return monotonic_ns();
}

/// From ticks of a process of this machine to the machine's monotonic clock. Calibrates itself: it gets more
/// exact the longer it lives; one that is new blocks for 20 ms at its first use.
class TickClock {
 public:
  explicit TickClock(Clock clock);
  Clock clock() const { return clock_; }
  Ticks now() const { return ticks(clock_); }
  double seconds(Ticks from, Ticks until);  ///< 0 where `until` is earlier.
  std::int64_t to_monotonic_ns(Ticks at);

  /// Makes what `to_monotonic_ns` gives more exact from now on. Between two calibrations all times keep their
  /// order.
  void calibrate();

 private:
  Clock clock_;
  Ticks first_, last_;  ///< `last_`: of the last calibration.
  std::uint64_t first_ns_;
  double ns_per_tick_ = 1;
};

}  // namespace lockstep::watch
