#include "cli/core_shares.h"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>

#include <algorithm>

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
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return {};
  std::vector<int> cores = cores_by_neighbourhood();
  std::erase_if(cores, [&](int core) { return core >= CPU_SETSIZE || !CPU_ISSET(core, &allowed); });
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed) && std::find(cores.begin(), cores.end(), core) == cores.end())
      cores.push_back(core);
  }
  return cores;
}

std::vector<std::vector<int>> share_cores(const std::vector<int>& cores, int num_processes) {
  const int count = static_cast<int>(cores.size());
  if (num_processes < 2 || count < num_processes) return {};
  std::vector<std::vector<int>> shares(num_processes);
  for (int i = 0; i < count; ++i) {
    shares[static_cast<long>(i) * num_processes / count].push_back(cores[i]);
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

int threads_per_process(int num_cores, int num_processes) { return std::max(1, num_cores / num_processes); }

}  // namespace lockstep::cli
