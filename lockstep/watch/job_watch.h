// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/watch/diagnosis.h"

namespace lockstep::watch {

/// Observes all processes of the job, and writes messages when some block the others or diverge. Time is an
/// argument, so that tests can control it. Used by one thread.
class JobWatch {
 public:
  /// `stall_warning`: the seconds after which a stall is reported. `stall_timeout`: the seconds after which
  /// it fails the job; nullopt: never.
  JobWatch(int num_processes, double stall_warning, std::optional<int> stall_timeout);

  /// Sets the latest report of a process.
  void take(ProcessReport report);

  /// Examines all reports. Returns the messages that are due: for a stall after the time of the warning, or
  /// 20 times the usual duration of its launch, whichever is longer, then at intervals that double; and when
  /// it has ended.
  std::vector<std::string> look(std::chrono::steady_clock::time_point now);

  /// The messages at the end of the job: about stalls that ended with it.
  std::vector<std::string> finish(std::chrono::steady_clock::time_point now);

  struct Failure {
    std::vector<int> processes;  ///< those that block the others, or differ from them
    std::string message;
    bool diverged = false;  ///< they differ
  };
  /// A stall that has lasted longer than the stall timeout, or different launches that collectives do not
  /// compare: then values would be wrong.
  const std::optional<Failure>& failure() const { return failure_; }

  /// Whether a reported stall waits for a process that has not called initialize().
  bool says_who_has_not_come() const;

  /// Whether the next reports should include the logs of launches.
  bool wants_logs() const { return wants_logs_; }

  /// A line about the earliest known launch that differs; empty if there is none.
  std::string difference() const;

  /// By process; processes without a report are missing.
  const std::vector<ProcessReport>& reports() const { return reports_; }

  /// The stalls found by the last look, the longest first, including short ones.
  const std::vector<Stall>& stalls() const { return stalls_; }

 private:
  struct Followed {
    std::string line;  ///< the last message
    Stall stall;
    std::chrono::steady_clock::time_point first, next, seen;
    std::uint64_t taken = 0;  ///< reports at the last look that saw it
    int said = 0;
    bool put_off = false;  ///< a message was due at the last look
  };

  bool has_news(const Followed& followed) const;
  void look_for_a_difference(std::vector<std::string>& lines, std::chrono::steady_clock::time_point now);
  bool logs_are_behind() const;
  std::string describe_end(const Followed& followed, std::chrono::steady_clock::time_point now) const;

  const int num_processes_;
  const double stall_warning_;
  const std::optional<int> stall_timeout_;
  std::vector<ProcessReport> reports_;     ///< by process
  std::map<int, std::uint64_t> taken_by_;  ///< by process: the number of its latest report
  std::uint64_t taken_ = 0;                ///< reports in all
  std::vector<Stall> stalls_;
  std::map<std::set<int>, Followed> followed_;  ///< by the processes that block the others
  std::optional<Failure> failure_;
  bool needs_logs_ = false, wants_logs_ = false;
  std::optional<Difference> found_;
  std::chrono::steady_clock::time_point found_at_;
  std::string difference_;  ///< the last message about it; empty: none
};

}  // namespace lockstep::watch
