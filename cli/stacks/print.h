#pragma once

#include <string>
#include <vector>

#include "cli/stacks/merge.h"

namespace lockstep::cli {

struct PrintOptions {
  int columns = 100;  ///< No line is longer, but for sentences.
  bool color = false;
};

/// The merged stacks as text: functions from the outermost down, each once; where processes part, a branch
/// for each set of them, the smallest first. A line that begins with "= " says what the threads do there.
std::string print_stacks(const MergedStacks& merged, const PrintOptions& options);

/// "0-2,5".
std::string as_ranges(const std::vector<int>& sorted);

}  // namespace lockstep::cli
