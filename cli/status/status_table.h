// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cli/status/status_json.h"

namespace lockstep::cli {

struct TableStyle {
  int columns = 0;  ///< of the terminal; 0: unlimited
  bool color = false;
  bool all = false;  ///< do not group processes
};

/// The job as text: a line about it, a line for each process, the stalls, and the processes for which others
/// wait. If there are more than kMostRows processes, those in the same state share a line, except those for
/// which others wait.
std::string status_table(const ReadView& status, const TableStyle& style);
inline constexpr std::size_t kMostRows = 64;

/// One line for each job.
std::string jobs_table(const std::vector<ReadView>& jobs, const TableStyle& style);

}  // namespace lockstep::cli
