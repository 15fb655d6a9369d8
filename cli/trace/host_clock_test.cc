// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/host_clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace lockstep::cli {
namespace {

constexpr std::int64_t kMs = 1'000'000, kSecond = 1'000'000'000;

/// A host whose clock is ahead by `offset` at the launcher's time 0, and runs faster by `drift`.
struct MadeUpHost {
  double offset = 0, drift = 0;

  std::int64_t at(std::int64_t launcher) const {
    return launcher + std::llround(offset + drift * static_cast<double>(launcher));
  }
  ClockExchange exchange(std::int64_t asked, std::int64_t there, std::int64_t thinks,
                         std::int64_t back) const {
    return {.asked = asked,
            .heard = asked + there + thinks + back,
            .received = at(asked + there),
            .replied = at(asked + there + thinks)};
  }
};

TEST(HostClock, TheLaunchersOwnClock_ChangesNothing) {
  EXPECT_EQ(HostClock().to_launcher(12345), 12345);
  EXPECT_EQ(HostClock().error_ns(12345), 0);
  EXPECT_EQ(HostClock(std::vector<ClockExchange>()).to_launcher(12345), 12345);
}

TEST(HostClock, OneExchangeWithEqualDelays_IsExact) {
  const MadeUpHost host{.offset = 17e9};
  const HostClock clock({host.exchange(kSecond, 2 * kMs, 5 * kMs, 2 * kMs)});
  EXPECT_NEAR(clock.to_launcher(host.at(kSecond)), kSecond, 5000);
  EXPECT_NEAR(clock.error_ns(host.at(kSecond + 2 * kMs)), 2 * kMs, 5000);
  EXPECT_TRUE(clock.consistent());
}

TEST(HostClock, DelayOnOneWayOnly_IsAnErrorOfHalfTheDelay_WhichItReports) {
  const MadeUpHost host{.offset = -3e9};
  for (const bool there : {false, true}) {
    const HostClock clock({host.exchange(0, there ? 10 * kMs : 0, 0, there ? 0 : 10 * kMs)});
    const std::int64_t at = there ? 10 * kMs : 0;
    EXPECT_EQ(std::abs(clock.to_launcher(host.at(at)) - at), 5 * kMs);
    EXPECT_EQ(clock.error_ns(host.at(at)), 5 * kMs);
  }
}

TEST(HostClock, TakesTheShortestRoundTrip) {
  const MadeUpHost host{.offset = 1e15};
  std::vector<ClockExchange> exchanges;
  for (int i = 0; i < 10; ++i) exchanges.push_back(host.exchange(i * kMs, 30 * kMs, 0, 0));
  exchanges.push_back(host.exchange(10 * kMs, 20'000, 0, 10'000));
  const HostClock clock(exchanges);
  EXPECT_LE(clock.error_ns(host.at(10 * kMs)), 16'000);
  EXPECT_LE(std::abs(clock.to_launcher(host.at(10 * kMs)) - 10 * kMs), 16'000);
}

TEST(HostClock, FollowsADrift) {
  const MadeUpHost host{.offset = 5e12, .drift = 100e-6};  // 6 ms in the minute
  std::vector<ClockExchange> exchanges;
  for (int i = 0; i <= 60; ++i) exchanges.push_back(host.exchange(i * kSecond, 20'000, 0, 20'000));
  const HostClock clock(exchanges);
  EXPECT_TRUE(clock.consistent());
  for (int i = 0; i <= 60; ++i)
    EXPECT_NEAR(static_cast<double>(clock.to_launcher(host.at(i * kSecond)) - i * kSecond), 0, 25'000) << i;
}

TEST(HostClock, AClockThatWasSet_IsInconsistent) {
  std::vector<ClockExchange> exchanges;
  for (int i = 0; i < 20; ++i) {
    const MadeUpHost host{.offset = i < 10 ? 0.0 : 2e9};
    exchanges.push_back(host.exchange(i * kSecond, 1000, 0, 1000));
  }
  EXPECT_FALSE(HostClock(exchanges).consistent());
}

// Whatever the delays, which are often long and different on the two ways: no time is wrong by more than it
// says, and later ones stay later.
TEST(HostClock, StaysWithinItsBound_WithRandomDelaysAndDrifts) {
  std::mt19937_64 random(7);
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution(low, high)(random);
  };
  for (int round = 0; round < 300; ++round) {
    const MadeUpHost host{.offset = between(-1e16, 1e16), .drift = between(-400e-6, 400e-6)};
    const double asymmetry = between(0, 1);
    std::vector<ClockExchange> exchanges;
    std::int64_t now = 0;
    const int count = 1 + static_cast<int>(random() % 60);
    for (int i = 0; i < count; ++i) {
      const double trip = std::exp(between(std::log(5e3), std::log(5e8)));
      exchanges.push_back(host.exchange(now, std::llround(trip * asymmetry), std::llround(between(0, 1e6)),
                                        std::llround(trip * (1 - asymmetry))));
      now = exchanges.back().heard + std::llround(between(0, 2e8));
    }
    std::ranges::shuffle(exchanges, random);
    const HostClock clock(exchanges);
    ASSERT_TRUE(clock.consistent());
    std::int64_t before = std::numeric_limits<std::int64_t>::min();
    for (std::int64_t at = -kSecond; at < now + kSecond; at += now / 100 + kSecond / 20) {
      const std::int64_t there = host.at(at), back = clock.to_launcher(there);
      EXPECT_LE(std::abs(back - at), clock.error_ns(there) + 2) << "round " << round << " at " << at;
      EXPECT_GE(back, before);
      before = back;
    }
  }
}

}  // namespace
}  // namespace lockstep::cli
