// SPDX-License-Identifier: Apache-2.0
#include "cli/children/core_shares.h"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>

namespace lockstep::cli {
namespace {

// All cores of the machine in the order of its topology; empty where it cannot be found out.
std::vector<int> cores_by_neighbourhood() {
  std::vector<int> cores;
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return cores;
  if (hwloc_topology_load(topology) == 0) {
    const int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
    for (int i = 0; i < count; ++i) {
      cores.push_back(static_cast<int>(hwloc_get_obj_by_type(topology, HWLOC_OBJ_PU, i)->os_index));
    }
  }
  hwloc_topology_destroy(topology);
  return cores;
}

constexpr std::size_t kWordBits = 8 * sizeof(unsigned long);

// The cores that this process may run on; empty where the kernel does not tell.
CoreMask allowed_cores() {
  // The kernel wants room for all the cores it could have.
  for (CoreMask mask(16); mask.size() <= 1 << 16; mask.assign(2 * mask.size(), 0)) {
    const std::size_t bytes = mask.size() * sizeof(unsigned long);
    if (sched_getaffinity(0, bytes, reinterpret_cast<cpu_set_t*>(mask.data())) == 0) return mask;
    if (errno != EINVAL) break;
  }
  return {};
}

}  // namespace

CoreMask to_mask(const std::vector<int>& cores) {
  CoreMask mask;
  for (const int core : cores) {
    const std::size_t word = static_cast<std::size_t>(core) / kWordBits;
    if (mask.size() <= word) mask.resize(word + 1);
    mask[word] |= 1UL << (static_cast<std::size_t>(core) % kWordBits);
  }
  return mask;
}

std::vector<int> from_mask(const CoreMask& mask) {
  std::vector<int> cores;
  for (std::size_t core = 0; core < mask.size() * kWordBits; ++core) {
    if ((mask[core / kWordBits] >> (core % kWordBits) & 1) != 0) cores.push_back(static_cast<int>(core));
  }
  return cores;
}

std::vector<int> usable_cores() {
  const std::vector<int> allowed = from_mask(allowed_cores());  // in rising order
  std::vector<int> cores = cores_by_neighbourhood();
  std::erase_if(cores, [&](int core) { return !std::binary_search(allowed.begin(), allowed.end(), core); });
  for (const int core : allowed) {
    if (std::find(cores.begin(), cores.end(), core) == cores.end()) cores.push_back(core);
  }
  return cores;
}

std::vector<std::vector<int>> share_cores(const std::vector<int>& cores, int num_processes) {
  const auto count = static_cast<long>(cores.size());
  if (num_processes < 2 || count == 0 || (num_processes > count && num_processes % count != 0)) return {};
  std::vector<std::vector<int>> shares(static_cast<std::size_t>(num_processes));
  // Neighbours in the longer row are together in the shorter one.
  const long steps = std::max<long>(count, num_processes);
  for (long i = 0; i < steps; ++i) {
    shares[static_cast<std::size_t>(i * num_processes / steps)].push_back(
        cores[static_cast<std::size_t>(i * count / steps)]);
  }
  return shares;
}

std::string name_cores(const std::vector<int>& cores) {
  std::string names;
  for (std::size_t i = 0; i < cores.size(); ++i) {
    std::size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    if (!names.empty()) names += ',';
    names += last > i ? fmt::format("{}-{}", cores[i], cores[last]) : fmt::format("{}", cores[i]);
    i = last;
  }
  return names;
}

int threads_per_process(int num_cores, int num_processes, std::optional<double> quota) {
  const int cores = quota && *quota < num_cores ? static_cast<int>(*quota) : num_cores;
  return std::max(1, cores / num_processes);
}

}  // namespace lockstep::cli
