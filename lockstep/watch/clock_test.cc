// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <thread>
#include <vector>

namespace lockstep::watch {
namespace {

/// Two clocks that each take 40 ns to be read, and a thread that reads them and loses its processor for 6 ms
/// after some of its readings.
class TwoClocks {
 public:
  /// `lost_after`: the numbers of these readings.
  explicit TwoClocks(const std::vector<int>& lost_after) {
    for (const int reading : lost_after) pauses_[reading] = 6'000'000;
  }

  Moment<std::int64_t, std::int64_t> read() {
    return read_together([this] { return take(); }, [this] { return kAhead + take(); });
  }

  static constexpr std::int64_t kAhead = 5'000'000'000;  ///< of the second clock

 private:
  std::int64_t take() {
    now_ += 40;
    const std::int64_t at = now_;
    if (const auto pause = pauses_.find(++readings_); pause != pauses_.end()) now_ += pause->second;
    return at;
  }

  std::map<int, std::int64_t> pauses_;
  std::int64_t now_ = 1'000'000;
  int readings_ = 0;
};

TEST(TickClock, CountsSeconds) {
  TickClock clock(machine_clock());
  const auto read = [&] { return read_together(monotonic_ns, [&] { return clock.now(); }); };
  const auto [start_ns, start] = read();
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  const auto [end_ns, end] = read();
  EXPECT_NEAR(clock.seconds(start, end), static_cast<double>(end_ns - start_ns) * 1e-9, 1e-4);
  EXPECT_NEAR(static_cast<double>(clock.to_monotonic_ns(start)), static_cast<double>(start_ns), 1e5);
  EXPECT_EQ(clock.seconds(start + 10, start), 0);
}

TEST(TickClock, PreemptionBetweenTwoReadings_DoesNotChangeTheMoment) {
  // Three readings are a try.
  const std::vector<std::vector<int>> losses = {{}, {1}, {2}, {3}, {1, 2}, {1, 5, 7}, {2, 4, 8, 10}};
  for (const std::vector<int>& lost_after : losses) {
    TwoClocks clocks(lost_after);
    const auto [time, other] = clocks.read();
    EXPECT_EQ(other - time, TwoClocks::kAhead) << lost_after.size() << " times";
  }
}

TEST(TickClock, ClocksThatTakeLongToRead_AreReadABoundedNumberOfTimes_AndTheShortestTryCounts) {
  std::int64_t now = 0;
  int readings = 0;
  const auto [time, other] = read_together(
      [&] {
        // The fourth try is the shortest.
        now += ++readings == 4 * 2 ? 300 : 1000;
        return now;
      },
      [&] { return now; });
  EXPECT_EQ(readings, 10 * 2);
  EXPECT_EQ(time - other, 150);
}

}  // namespace
}  // namespace lockstep::watch
