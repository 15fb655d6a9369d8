#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "cli/job_view.h"
#include "cli/outcome.h"
#include "cli/process_host.h"

namespace lockstep::cli {

/// Keeps what the launcher knows of its job for those who ask, over all starts of the job. Used by one
/// thread; what `view` gives may be read by any.
class StatusBoard {
 public:
  /// `devices_per_process`: 1 where it is not known.
  StatusBoard(std::string job_id, const std::vector<std::string>& command, int num_processes,
              int devices_per_process = 1);

  /// The job is started, for the first time or again: nothing is known of its processes.
  void begin(int attempt);

  /// "waiting for hosts", "running", ...
  void set_state(std::string state) { view_.state = std::move(state); }

  /// What came first, once something has failed.
  void set_failure(std::string failure) { view_.failure = std::move(failure); }

  void take(const watch::ProcessReport& report);
  void ended(int process, const Outcome& outcome);

  /// The stalls of this moment, also short ones.
  void set_stalls(const std::vector<watch::Stall>& stalls);

  /// The launcher has said a line to the user.
  void said(std::string_view line);

  std::shared_ptr<const JobView> view() const;

 private:
  /// What a process had done at a moment of its own.
  struct Sample {
    double age = 0;
    Times in_all;
  };

  JobView view_;
  const int devices_;
  std::vector<std::deque<Sample>> samples_;  // by process, of the last seconds
  std::vector<std::string> long_stalls_;     // of the call before, by key
};

}  // namespace lockstep::cli
