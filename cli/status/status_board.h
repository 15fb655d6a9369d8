// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "cli/base/outcome.h"
#include "cli/hosts/process_host.h"
#include "cli/status/job_view.h"

namespace lockstep::cli {

/// The launcher's information about its job, over all starts of the job, for requests. Used by one thread;
/// the result of `view` may be read by any.
class StatusBoard {
 public:
  /// `devices_per_process`: 1 if unknown.
  StatusBoard(std::string job_id, const std::vector<std::string>& command, int num_processes,
              int devices_per_process = 1);

  /// The job is started, for the first time or again: nothing is known about its processes.
  void begin(int attempt);

  /// "waiting for hosts", "running", ...
  void set_state(std::string state) { view_.state = std::move(state); }

  /// The first failure, if there is one.
  void set_failure(const std::string& failure);

  void take(const watch::ProcessReport& report);
  void ended(int process, const Outcome& outcome);

  /// The current stalls, including short ones.
  void set_stalls(const std::vector<watch::Stall>& stalls);

  /// The launcher has printed a line.
  void said(std::string_view line);

  std::shared_ptr<const JobView> view() const;

 private:
  /// The total times of a process at some moment.
  struct Sample {
    double age = 0;
    Times in_all;
  };

  JobView view_;
  const int devices_;
  std::vector<std::deque<Sample>> samples_;  // by process, of the last seconds
  std::vector<std::string> long_stalls_;     // of the previous call, by key
};

}  // namespace lockstep::cli
