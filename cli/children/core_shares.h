// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::cli {

/// The cores (hardware threads) on which this process may run; neighbours in the machine are next to each
/// other.
std::vector<int> usable_cores();

/// A set of cores in the kernel's form, one bit for each; for any number of cores.
using CoreMask = std::vector<unsigned long>;
CoreMask to_mask(const std::vector<int>& cores);
std::vector<int> from_mask(const CoreMask& mask);

/// Distributes the cores over this number of processes, in order and as evenly as possible; neighbours stay
/// together. If the number of processes is a multiple of that of the cores, as many of them share each core:
/// they wait for one another anyway, and find more in its caches. Empty, so that none is bound, for one
/// process and for other numbers of processes than cores can have evenly.
std::vector<std::vector<int>> share_cores(const std::vector<int>& cores, int num_processes);

/// "0-3,8" for cores in this order.
std::string name_cores(const std::vector<int>& cores);

/// The number of threads with which each process should compute, at least 1: its share of the cores, or less
/// if `quota`, in CPUs, limits the processes together.
int threads_per_process(int num_cores, int num_processes, std::optional<double> quota = {});

}  // namespace lockstep::cli
