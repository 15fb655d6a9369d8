// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>

#include "lockstep/watch/layout.h"

namespace lockstep::watch {

/// The clock of this machine's recorders: the processor's counter if it runs at the same constant rate on all
/// cores, because reading it takes a quarter of the time of reading the monotonic clock; otherwise that.
Clock machine_clock();

inline Ticks monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<Ticks>(now.tv_sec) * 1'000'000'000 + static_cast<Ticks>(now.tv_nsec);
}

/// What the clock says now.
inline Ticks ticks(Clock clock) {
#if defined(__x86_64__)
  // Not __rdtsc: its header adds a second to the compilation of each source file that includes it.
  if (clock == Clock::kTsc) return __builtin_ia32_rdtsc();
#endif
  return monotonic_ns();
}

/// What two clocks say at one moment.
template <class Time, class Other>
struct Moment {
  Time time;
  Other other;
};

/// Reads two clocks at the same moment: the other one between two readings of the first, which gives ns. A
/// thread that loses its processor in between reads again; of at most 10 tries the shortest counts. `time` is
/// the middle between its two readings, and wrong by at most half of their distance.
template <class ReadTime, class ReadOther>
auto read_together(ReadTime read_time, ReadOther read_other) {
  constexpr int kMostTries = 10;
  constexpr int kShort = 200;  // ns
  auto before = read_time();
  auto other = read_other();
  auto took = read_time() - before;
  Moment<decltype(before), decltype(other)> best{before + took / 2, other};
  for (int tries = 1; tries < kMostTries && took > kShort; ++tries) {
    before = read_time();
    other = read_other();
    const auto again = read_time() - before;
    if (again >= took) continue;
    took = again;
    best = {before + took / 2, other};
  }
  return best;
}

/// Converts ticks of a process on this machine to the machine's monotonic clock. The rate of the ticks is
/// measured from the construction on, so it becomes more precise with time; the first conversion waits until
/// 20 ms have passed since then.
class TickClock {
 public:
  explicit TickClock(Clock clock);
  Clock clock() const { return clock_; }
  Ticks now() const { return ticks(clock_); }
  double seconds(Ticks from, Ticks until);  ///< 0 if `until` is earlier
  std::int64_t to_monotonic_ns(Ticks at);

  /// Measures the rate again, for all conversions from now on. Two times that are converted with the same
  /// rate keep their order.
  void calibrate();

 private:
  Moment<Ticks, Ticks> read() const;  ///< the monotonic clock and the ticks, now

  Clock clock_;
  Moment<Ticks, Ticks> first_;
  Ticks last_;  ///< the ticks when the rate was measured last
  double ns_per_tick_ = 1;
};

}  // namespace lockstep::watch
