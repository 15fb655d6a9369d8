#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "lockstep/collectives/crowding.h"
#include "lockstep/collectives/futex.h"

namespace lockstep::collectives {

/// How one member waits before it sleeps. It spins while that is of use: where each device of the host has a
/// CPU, and the awaited one runs on another CPU than this. Else it gives its CPU away, again and again for a
/// short while: the next one then needs no wake-up, which takes longer than most small operations do.
///
/// Where programs that are not of the job compute on the same CPUs, giving it away costs a slice of the
/// scheduler, some milliseconds, but a sleeper is woken at once. So a wait in which that was seen sleeps, and
/// the ones after it do, for a while that doubles each time.
class Patience {
 public:
  explicit Patience(const Crowding& crowding) : crowding_(&crowding) {}

  /// Waits for `done` a fraction of a millisecond; gives what it gave last. `awaited_on` says whether one who
  /// is awaited was last seen on this CPU, counted from 1, or on none.
  template <class Done, class AwaitedOn>
  bool wait(Done done, AwaitedOn awaited_on) {
    if (done()) return true;
    const auto limit = crowding_->crowded() ? kShortSpin : kSpin;
    const Clock::time_point start = Clock::now();
    while (!awaited_on(current_cpu() + 1)) {
      for (int i = 0; i < 64; ++i) {
        spin_pause();
        if (done()) return true;
      }
      if (Clock::now() - start > limit) break;
    }
    if (sleeps_ != 0) {
      --sleeps_;
      return false;
    }
    return give_way(done);
  }

 private:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::microseconds kSpin{200};      ///< Where every device can have a CPU.
  static constexpr std::chrono::microseconds kShortSpin{10};  ///< Where they share them.
  static constexpr std::chrono::microseconds kGivesWay{100};  ///< So long it gives its CPU away.
  static constexpr std::chrono::microseconds kSlice{700};     ///< Away so long: a program ran that computes.
  static constexpr std::uint32_t kMostSleeps = 1024;

  template <class Done>
  bool give_way(Done done) {
    const Clock::time_point start = Clock::now();
    for (Clock::time_point before = start;;) {
      sched_yield();
      const bool is_done = done();
      const Clock::time_point now = Clock::now();
      // What computes may have been what is awaited.
      if (now - before > kSlice && !is_done) {
        penalty_ = std::min(2 * penalty_, kMostSleeps);
        sleeps_ = penalty_;
        return false;
      }
      if (is_done) {
        if (now - start < kGivesWay && penalty_ > kLeastSleeps) --penalty_;
        return true;
      }
      if (now - start > kGivesWay) return false;
      before = now;
    }
  }

  static constexpr std::uint32_t kLeastSleeps = 4;

  const Crowding* crowding_;
  std::uint32_t sleeps_ = 0;  ///< So many waits to come sleep at once.
  std::uint32_t penalty_ = kLeastSleeps;
};

}  // namespace lockstep::collectives
