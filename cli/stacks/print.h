// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cli/stacks/merge.h"

namespace lockstep::cli {

struct PrintOptions {
  int columns = 100;  ///< the maximal length of lines, except sentences
  bool color = false;
};

/// The merged stacks as text: functions from the outermost one, each once. Where the stacks differ, there is
/// a branch for each set of processes, the smallest first. A line that begins with "= " is the state of the
/// threads.
std::string print_stacks(const MergedStacks& merged, const PrintOptions& options);

/// "0-2,5".
std::string as_ranges(const std::vector<int>& sorted);

}  // namespace lockstep::cli
