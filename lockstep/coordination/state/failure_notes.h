// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/coordination/protocol/task.h"

namespace lockstep::coordination {

/// Observed failures that have not ended the job, or not yet. They determine the first cause. Not
/// thread-safe.
class FailureNotes {
 public:
  /// The processes diverged: all later failures are consequences.
  void note_divergence(const Failure& failure);

  /// The barrier failed for `members` (empty: for all): if one of them ends with an error, that is a
  /// consequence. A program may also call the barrier again: when it passes, `barrier_passed` drops this.
  void note_barrier(const std::string& barrier, std::vector<int> members, const Failure& failure);
  void barrier_passed(const std::string& barrier);

  /// The cause of a failure: the recorded failure of which it is a consequence, with the text of the failure
  /// below; otherwise the failure itself.
  Failure cause_of(const Failure& failure) const;

  /// A process failed, reported by an observer that may not know how: counts from `due` on, unless it is
  /// settled before. Reports count in the order in which the failures were first seen; a later report about
  /// the same process may be more exact and then replaces the text.
  void await(const Failure& failure, Clock::TimePoint due);

  /// The process has registered or polled again: pending reports concern its earlier incarnation or
  /// connection.
  void forget(int process);

  /// The reports that count now, in order.
  std::vector<Failure> take_due(Clock::TimePoint now);

  /// No better report will come: all count now.
  void settle();

 private:
  struct Note {
    Failure failure;
    std::string barrier;  ///< empty: a divergence
    std::vector<int> members;
    bool explains(const Failure& other) const;
  };
  struct Awaited {
    Failure failure;
    Clock::TimePoint due;
  };
  std::vector<Note> notes_;
  std::vector<Awaited> awaited_;
};

}  // namespace lockstep::coordination
