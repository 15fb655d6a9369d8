#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::cli {

/// One exchange of times between the launcher and the agent of another host; ns.
struct ClockExchange {
  std::int64_t asked = 0, heard = 0;  ///< By the launcher's clock: when it asked, and when it had the answer.
  std::int64_t received = 0, replied = 0;  ///< By the host's: when the question came, and when it answered.
};

/// How a host's clock stands to the launcher's, by exchanges with it. Each exchange bounds how far the host's
/// clock is ahead, whatever the delay on either way: at `received` by received - asked from above, at
/// `replied` by replied - heard from below. What the bounds of one exchange say of another moment is wider by
/// what the clocks may drift apart until then, kDrift at most. Of all these bounds the closest ones count;
/// the middle is taken, and half of their distance is the largest error.
class HostClock {
 public:
  static constexpr double kDrift =
      500e-6;  ///< ns a ns: what the kernel slews a clock by at most, and quartz by far.

  /// The launcher's own clock.
  HostClock() = default;

  /// In any order.
  explicit HostClock(const std::vector<ClockExchange>& exchanges);

  /// A time of the host's clock by the launcher's. Later times give later ones.
  std::int64_t to_launcher(std::int64_t host_ns) const;

  /// By so much `to_launcher` may be wrong there.
  std::int64_t error_ns(std::int64_t host_ns) const;

  /// False where the bounds contradict each other: a clock was set, or drifted by more than kDrift.
  bool consistent() const { return consistent_; }

 private:
  struct Knot {
    std::int64_t at = 0;  ///< By the host's clock.
    double least = 0, most = 0;
  };
  struct Bounds {
    double least = 0, most = 0;
  };
  Bounds ahead_at(std::int64_t host_ns) const;

  std::int64_t about_ = 0;   ///< So far ahead the host's clock is, roughly; the knots say what remains.
  std::vector<Knot> knots_;  ///< Ascending.
  bool consistent_ = true;
};

}  // namespace lockstep::cli
