#pragma once

#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/coordination/task.h"

namespace lockstep::coordination {

/// Failures that were seen and have not ended the job, or not yet. They decide what came first. Not
/// thread-safe.
class FailureNotes {
 public:
  /// The processes diverged: whatever fails from now on does so in consequence.
  void note_divergence(const Failure& failure);

  /// The barrier failed for `members` (empty: for all): one of them that ends with an error does so in
  /// consequence. A program may also call the barrier again: once it passes, `barrier_passed` forgets.
  void note_barrier(const std::string& barrier, std::vector<int> members, const Failure& failure);
  void barrier_passed(const std::string& barrier);

  /// The cause of a failure: what was noted of which it is a consequence, its text with that of the failure
  /// below; otherwise the failure itself.
  Failure cause_of(const Failure& failure) const;

  /// A process failed, as somebody saw it who may not know how: counts when `due` has come, unless it is
  /// settled before. Reports count in the order in which the failures were first seen; a later report of the
  /// same process may know better, and then replaces the text.
  void await(const Failure& failure, Clock::TimePoint due);

  /// The process has come again: what is awaited of it was said of its earlier life.
  void forget(int process);

  /// The reports that count now, in order.
  std::vector<Failure> take_due(Clock::TimePoint now);

  /// No better word will come: all counts now.
  void settle();

 private:
  struct Note {
    Failure failure;
    std::string barrier;  ///< Empty: a divergence.
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
