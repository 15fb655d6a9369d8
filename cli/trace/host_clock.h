// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::cli {

/// One exchange of times between the launcher and the agent of another host, in ns.
struct ClockExchange {
  std::int64_t asked = 0, heard = 0;  ///< by the launcher's clock: when it asked, and when it had the answer
  std::int64_t received = 0, replied = 0;  ///< by the host's clock: when the question arrived, and when it
                                           ///< answered
};

/// The relation of a host's clock to the launcher's, from exchanges with it. Each exchange limits how far the
/// host's clock is ahead, whatever the delays are: at `received` by received - asked from above, at `replied`
/// by replied - heard from below. For other moments the limits of one exchange are widened by the possible
/// drift, kDrift at most. The tightest of all these limits are used: the estimate is their middle, and half
/// of their distance is the maximal error.
class HostClock {
 public:
  static constexpr double kDrift = 500e-6;  ///< ns per ns: the maximum by which the kernel slews a clock, and
                                            ///< far above the drift of quartz

  /// The launcher's own clock.
  HostClock() = default;

  /// In any order.
  explicit HostClock(const std::vector<ClockExchange>& exchanges);

  /// Converts a time of the host's clock to the launcher's. Keeps the order of times.
  std::int64_t to_launcher(std::int64_t host_ns) const;

  /// The maximal error of `to_launcher` at this time.
  std::int64_t error_ns(std::int64_t host_ns) const;

  /// False if the limits contradict each other: a clock was set, or drifted by more than kDrift.
  bool consistent() const { return consistent_; }

 private:
  struct Knot {
    std::int64_t at = 0;  ///< by the host's clock
    double least = 0, most = 0;
  };
  struct Bounds {
    double least = 0, most = 0;
  };
  Bounds ahead_at(std::int64_t host_ns) const;

  std::int64_t about_ = 0;   ///< roughly how far the host's clock is ahead; the knots have the rest
  std::vector<Knot> knots_;  ///< ascending
  bool consistent_ = true;
};

}  // namespace lockstep::cli
