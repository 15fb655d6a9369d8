#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/watch/report.h"

namespace lockstep::cli {

/// What is kept of an attempt that failed.
struct FailureReport {
  std::string job_id;
  int attempt = 0;
  std::string words;       ///< The launcher's last lines.
  std::string difference;  ///< The earliest launch that differs; empty where none does.
  std::string stacks;      ///< Of those that still ran when it failed; empty where they could not be taken.
  std::vector<watch::ProcessReport> processes;
  std::vector<std::string> log_ends;  ///< What each process wrote last, by process.
};

/// Writes it to FOLDER/JOB.attempt-A/: summary.txt for people, processes.json with all that the recorders
/// held, stacks.txt, and log-ends.txt. Gives the folder. Throws Error where it cannot be written.
std::filesystem::path write_failure_report(const std::filesystem::path& folder, const FailureReport& report);

}  // namespace lockstep::cli
