// SPDX-License-Identifier: Apache-2.0
#include "cli/children/core_shares.h"

#include <hwloc.h>

#include <algorithm>

#include "lockstep/base/cores.h"

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

}  // namespace

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

int threads_per_process(int num_cores, int num_processes, std::optional<double> quota) {
  const int cores = quota && *quota < num_cores ? static_cast<int>(*quota) : num_cores;
  return std::max(1, cores / num_processes);
}

}  // namespace lockstep::cli
