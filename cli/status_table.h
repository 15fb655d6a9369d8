#pragma once

#include <string>

#include "cli/status_json.h"

namespace lockstep::cli {

struct TableStyle {
  int columns = 0;  ///< Of the terminal; 0: as many as it takes.
  bool color = false;
  bool all = false;  ///< Never in groups.
};

/// The job for people: a line about it, a line for each process, what stalls, and who is waited for. Where
/// there are more than kMostRows processes, those that do the same share a line, and those that are waited
/// for have one each.
std::string status_table(const ReadView& status, const TableStyle& style);
inline constexpr std::size_t kMostRows = 64;

/// One line for each job.
std::string jobs_table(const std::vector<ReadView>& jobs, const TableStyle& style);

}  // namespace lockstep::cli
