// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <vector>

#include "cli/stacks/snapshot.h"
#include "cli/stacks/stacks.h"

namespace lockstep::cli {

/// The frames of a thread, the innermost first, and why some are missing, if any are.
struct Unwound {
  std::vector<Frame> frames;
  std::string missing;
};

/// Computes the stacks of a snapshot, in the order of its threads, with elfutils' libdw and the files of the
/// program and its libraries. The process continues to run; it must exist, for the list of its files.
/// `deadline`: source lines, and then stacks, that are not finished by then are left out.
std::vector<Unwound> unwind(int pid, const Snapshot& snapshot, int most_frames,
                            std::chrono::steady_clock::time_point deadline);

}  // namespace lockstep::cli
