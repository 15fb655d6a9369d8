// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "cli/base/console.h"
#include "cli/base/signals.h"
#include "cli/children/descendants.h"
#include "cli/hosts/job_variables.h"
#include "cli/run/job.h"
#include "cli/run/job_status.h"

namespace lockstep::cli {

struct AttemptResult {
  enum class End {
    kFinal,  ///< succeeded, or failed in a way that another start would not change; everything is reported
    kToldToEnd,    ///< ended by a signal to this process, or at the deadline; everything is reported
    kFailed,       ///< failed after its processes had started: another start may help
    kUnreachable,  ///< a host did not answer; nothing was started
    kNotStarted,   ///< the program, or what its start needs, was missing or refused; nothing runs
  } end = End::kFinal;
  int status = 0;
  std::string failure;               ///< where it is not reported yet: which process or host, and how
  std::string report;                ///< the last lines for the user, if there is no other start
  std::set<std::string> lost_hosts;  ///< as in the placements
};

/// One start of a job, from finding the hosts and starting the coordinator to the end of the last process.
class Attempt {
 public:
  /// `job` has no coordinator yet. At the deadline the job is ended.
  Attempt(const JobOptions& options, JobIdentity job, Signals& signals, Console& console, JobStatus& status,
          const Descendants& descendants, std::optional<std::chrono::steady_clock::time_point> deadline);
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  /// Runs it, once. Throws Error as run_job does.
  AttemptResult run();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::cli
