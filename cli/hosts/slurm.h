// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/hosts/hosts.h"
#include "lockstep/base/environment.h"

namespace lockstep::cli {

/// The nodes of this process's Slurm allocation, with the number of processes on each: the allocation's
/// numbers of tasks, if their sum is `num_processes` or that is not given; otherwise an even distribution.
/// Throws Error outside of an allocation, and if the number of processes is unknown.
std::vector<Placement> slurm_placement(const Environment& environment, std::optional<int> num_processes);

}  // namespace lockstep::cli
