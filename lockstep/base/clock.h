// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>

namespace lockstep {

/// Monotonic time, passed in wherever decisions depend on time, so that a test can control it.
class Clock {
 public:
  using Duration = std::chrono::nanoseconds;
  using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;

  /// The machine's monotonic clock.
  static const Clock& steady();
};

/// A clock that moves only by `advance`. Threads may read it while another advances it.
class ManualClock : public Clock {
 public:
  TimePoint now() const override { return TimePoint(Duration(now_.load())); }
  void advance(Duration duration) { now_ += duration.count(); }

 private:
  std::atomic<Duration::rep> now_{0};
};

}  // namespace lockstep
