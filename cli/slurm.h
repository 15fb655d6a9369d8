#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/hosts.h"
#include "lockstep/base/environment.h"

namespace lockstep::cli {

/// The nodes of the Slurm allocation that this process is in, with the processes that each takes: as many as
/// the allocation has tasks for there, where that is `num_processes` in all or none are given; otherwise they
/// are spread evenly. Throws Error outside of an allocation, and where neither says how many processes there
/// are.
std::vector<Placement> slurm_placement(const Environment& environment, std::optional<int> num_processes);

}  // namespace lockstep::cli
