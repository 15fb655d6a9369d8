// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "lockstep/collectives/crowding.h"
#include "lockstep/collectives/futex.h"

namespace lockstep::collectives {

/// Set by a thread that does collectives beside the program of its device: while it spun, the program could
/// not compute on this CPU, so it sleeps at once.
inline thread_local bool waits_beside_a_program = false;

/// How a member waits before it sleeps. It spins if that is useful: if each device of the host has a CPU, and
/// the awaited member runs on another CPU. Otherwise it yields its CPU repeatedly for a short while: then the
/// other member needs no wake-up, which takes longer than most small operations.
///
/// If programs outside of the job compute on the same CPUs, yielding costs a time slice of the scheduler,
/// some milliseconds, but a sleeping thread is woken at once. A wait in which that was observed sleeps, and
/// so do the next ones, for a number that doubles each time.
class Patience {
 public:
  explicit Patience(const Crowding& crowding) : crowding_(&crowding) {}

  /// Waits a fraction of a millisecond for `done`; returns its last result. `awaited_on` returns whether an
  /// awaited member was last seen on this CPU, counted from 1, or on none.
  template <class Done, class AwaitedOn>
  bool wait(Done done, AwaitedOn awaited_on) {
    if (done()) return true;
    if (waits_beside_a_program) return false;
    if (spin(done, awaited_on, crowding_->crowded() ? kShortSpin : kSpin)) return true;
    if (sleeps_ != 0) {
      --sleeps_;
      return false;
    }
    return give_way(done, awaited_on);
  }

 private:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::microseconds kSpin{200};      ///< if every device can have a CPU
  static constexpr std::chrono::microseconds kShortSpin{10};  ///< if devices share CPUs
  static constexpr std::chrono::microseconds kGivesWay{100};  ///< how long it yields its CPU
  static constexpr std::chrono::microseconds kSlice{700};     ///< if it did not run for this long, another
                                                              ///< program was computing
  static constexpr std::uint32_t kMostSleeps = 1024;

  /// As long as no awaited member needs this CPU. Small operations are over before the first look at the
  /// clock, which takes a tenth of their time.
  template <class Done, class AwaitedOn>
  static bool spin(Done done, AwaitedOn awaited_on, std::chrono::microseconds limit) {
    for (Clock::time_point start{}; !awaited_on(current_cpu() + 1);) {
      for (int i = 0; i < 64; ++i) {
        spin_pause();
        if (done()) return true;
      }
      const Clock::time_point now = Clock::now();
      if (start == Clock::time_point()) {
        start = now;
      } else if (now - start > limit) {
        break;
      }
    }
    return false;
  }

  template <class Done, class AwaitedOn>
  bool give_way(Done done, AwaitedOn awaited_on) {
    const Clock::time_point start = Clock::now();
    for (Clock::time_point before = start;;) {
      sched_yield();
      bool is_done = done();
      Clock::time_point now = Clock::now();
      // The program that computed may have been the awaited member.
      if (now - before > kSlice && !is_done) {
        penalty_ = std::min(2 * penalty_, kMostSleeps);
        sleeps_ = penalty_;
        return false;
      }
      // Members of this CPU may have come meanwhile: then only those of other CPUs are awaited, and each
      // further change between the processes of this one would make them wait longer.
      if (!is_done && now - start <= kGivesWay) {
        is_done = spin(done, awaited_on, kShortSpin);
        now = Clock::now();
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
  std::uint32_t sleeps_ = 0;  ///< the number of following waits that sleep at once
  std::uint32_t penalty_ = kLeastSleeps;
};

}  // namespace lockstep::collectives
