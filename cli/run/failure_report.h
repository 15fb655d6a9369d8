// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/watch/report.h"

namespace lockstep::cli {

/// The data that is kept about a failed attempt.
struct FailureReport {
  std::string job_id;
  int attempt = 0;
  std::string words;       ///< the launcher's last lines
  std::string difference;  ///< the earliest launch that differs; empty if there is none
  std::string stacks;      ///< of the processes that were still running; empty if they could not be taken
  std::vector<watch::ProcessReport> processes;
  std::vector<std::string> log_ends;  ///< the last output of each process, by process
};

/// Writes it to FOLDER/JOB.attempt-A/: summary.txt for people, processes.json with everything in the
/// recorders, stacks.txt, and log-ends.txt. Returns the folder. Throws Error if it cannot be written.
std::filesystem::path write_failure_report(const std::filesystem::path& folder, const FailureReport& report);

}  // namespace lockstep::cli
