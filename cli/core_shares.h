#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::cli {

/// The cores (hardware threads) that this process may run on, neighbours in the machine next to each other.
std::vector<int> usable_cores();

/// A set of cores as the kernel takes and gives it, a bit each; for any number of cores.
using CoreMask = std::vector<unsigned long>;
CoreMask to_mask(const std::vector<int>& cores);
std::vector<int> from_mask(const CoreMask& mask);

/// The cores shared out to so many processes, in order and as evenly as can be, neighbours together. Empty
/// where there are more processes than cores, or only one process: then none is bound.
std::vector<std::vector<int>> share_cores(const std::vector<int>& cores, int num_processes);

/// "0-3,8" for cores in this order.
std::string name_cores(const std::vector<int>& cores);

/// How many threads each process should compute with, at least 1: its share of the cores, or less where
/// `quota`, in CPUs, gives the processes together less time.
int threads_per_process(int num_cores, int num_processes, std::optional<double> quota = {});

}  // namespace lockstep::cli
