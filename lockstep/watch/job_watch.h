#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/watch/diagnosis.h"

namespace lockstep::watch {

/// Looks at what all processes of the job do, and finds words where some hold up the others or do something
/// else. Knows no clock of its own, so that tests move it by hand. Used by one thread.
class JobWatch {
 public:
  /// `stall_warning`: after so many seconds there is a word on a stall. `stall_timeout`: after so many it
  /// fails the job; it never does where there is none.
  JobWatch(int num_processes, double stall_warning, std::optional<int> stall_timeout);

  /// The latest that is known of a process.
  void take(ProcessReport report);

  /// Looks at all of it. Gives the lines to say now: a stall after the warning's time, or 20 times what its
  /// launch usually takes, whichever is longer, then at intervals that double; and what became of it.
  std::vector<std::string> look(std::chrono::steady_clock::time_point now);

  /// The lines to say when the job has ended: of stalls that ended with it.
  std::vector<std::string> finish(std::chrono::steady_clock::time_point now);

  struct Failure {
    std::vector<int> processes;  ///< Who holds up the others.
    std::string message;
  };
  /// The stall that has lasted longer than the stall timeout.
  const std::optional<Failure>& failure() const { return failure_; }

  /// Whether a stall of which there has been a word is for a process that has not called initialize().
  bool says_who_has_not_come() const;

  /// Whether the next reports should come with the logs of launches.
  bool wants_logs() const { return wants_logs_; }

  /// The earliest launch that differs, by what is known now, in a line; empty where none does.
  std::string difference() const;

  /// By process; those that were never heard of are missing.
  const std::vector<ProcessReport>& reports() const { return reports_; }

  /// The stalls that were found by the last look, the longest first, also short ones.
  const std::vector<Stall>& stalls() const { return stalls_; }

 private:
  struct Followed {
    std::string line;  ///< What was said last.
    Stall stall;
    std::chrono::steady_clock::time_point first, next, seen;
    int said = 0;
    bool put_off = false;  ///< A word was due at the last look.
  };

  void look_for_a_difference(std::vector<std::string>& lines);
  bool logs_are_behind() const;
  std::string describe_end(const Followed& followed, std::chrono::steady_clock::time_point now) const;

  const int num_processes_;
  const double stall_warning_;
  const std::optional<int> stall_timeout_;
  std::vector<ProcessReport> reports_;  ///< By process.
  std::vector<Stall> stalls_;
  std::map<std::set<int>, Followed> followed_;  ///< By who holds up the others.
  std::optional<Failure> failure_;
  bool needs_logs_ = false, wants_logs_ = false;
  std::optional<Difference> found_;
  std::string difference_;  ///< As it was said; empty: it was not.
};

}  // namespace lockstep::watch
