#pragma once

#include <memory>
#include <string>

#include "cli/console.h"
#include "cli/descendants.h"
#include "cli/job.h"
#include "cli/job_variables.h"
#include "cli/signals.h"

namespace lockstep::cli {

struct AttemptResult {
  int status = 0;
  bool stopped = false;  ///< By a signal to this process.
  bool failed = false;   ///< By itself, after its processes had started: starting it again may help.
  std::string failure;   ///< Which process, and how.
};

/// One start of a job, from the hosts and the coordinator to the end of the last process.
class Attempt {
 public:
  /// Opens the logs. `job` has no coordinator yet. `report`: say the end of a failure in full.
  Attempt(const JobOptions& options, JobIdentity job, Signals& signals, Console& console,
          const Descendants& descendants, bool report);
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  /// Runs it, once. Throws Error as run_job.
  AttemptResult run();

  /// A line of the launcher's own.
  void say(const std::string& line);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::cli
