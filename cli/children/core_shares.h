// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

namespace lockstep::cli {

/// The cores (hardware threads) on which this process may run; neighbours in the machine are next to each
/// other.
std::vector<int> usable_cores();

/// Distributes the cores over this number of processes, in order and as evenly as possible; neighbours stay
/// together. If the number of processes is a multiple of that of the cores, as many of them share each core:
/// they wait for one another anyway, and find more in its caches. Empty, so that none is bound, for one
/// process and for other numbers of processes than cores can have evenly.
std::vector<std::vector<int>> share_cores(const std::vector<int>& cores, int num_processes);

/// The number of threads with which each process should compute, at least 1: its share of the cores, or less
/// if `quota`, in CPUs, limits the processes together.
int threads_per_process(int num_cores, int num_processes, std::optional<double> quota = {});

}  // namespace lockstep::cli
