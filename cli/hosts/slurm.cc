// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts/slurm.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/node_list.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kMostNodes = 1'000'000;

int number_in(std::string_view text, const std::string& variable) {
  const auto number = cluster::whole_number(text);
  if (number && *number > 0 && std::in_range<int>(*number)) return static_cast<int>(*number);
  fail("{} has '{}': expected a number of at least 1", variable, shown(text));
}

// "2(x3),1" gives 2, 2, 2, 1.
std::vector<int> expand_counts(std::string_view text, const std::string& variable) {
  std::vector<int> counts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    const std::size_t times = part.find("(x");
    int repeat = 1;
    if (times != std::string_view::npos) {
      if (!part.ends_with(')'))
        fail("{}={} cannot be read: expected a form such as 2(x3),1", variable, shown(text));
      repeat = number_in(part.substr(times + 2, part.size() - times - 3), variable);
    }
    if (static_cast<std::size_t>(repeat) > kMostNodes - counts.size())
      fail("{}={} has more than {} nodes", variable, shown(text), kMostNodes);
    counts.insert(counts.end(), repeat, number_in(part.substr(0, times), variable));
    begin = end + 1;
  }
  return counts;
}

}  // namespace

std::vector<Placement> slurm_placement(const Environment& environment, std::optional<int> num_processes) {
  const auto nodes_text = environment.get("SLURM_JOB_NODELIST");
  if (!environment.get("SLURM_JOB_ID") || !nodes_text) {
    fail(
        "--slurm starts processes inside an allocation, but there is none here (SLURM_JOB_ID and "
        "SLURM_JOB_NODELIST are not set): run it under salloc or in a script for sbatch, or use --hosts");
  }
  const std::vector<std::string> nodes = cluster::expand_node_list(*nodes_text);
  std::vector<HostSlots> hosts;
  for (const std::string& node : nodes) hosts.push_back({.host = node});

  const auto tasks = environment.get("SLURM_TASKS_PER_NODE");
  const bool asked_for_tasks = environment.get("SLURM_NTASKS") || environment.get("SLURM_NTASKS_PER_NODE");
  if (tasks && (asked_for_tasks || num_processes)) {
    const std::vector<int> counts = expand_counts(*tasks, "SLURM_TASKS_PER_NODE");
    const long long sum = std::accumulate(counts.begin(), counts.end(), 0LL);
    if (counts.size() == nodes.size() && (!num_processes || sum == *num_processes)) {
      for (std::size_t i = 0; i < nodes.size(); ++i) hosts[i].slots = counts[i];
      return place_processes(hosts, {});
    }
  }
  if (!num_processes) {
    const auto total = environment.get("SLURM_NTASKS");
    if (!total) fail("the allocation does not say how many processes to start (no SLURM_NTASKS): give -n");
    num_processes = number_in(*total, "SLURM_NTASKS");
  }
  return place_processes(hosts, num_processes);
}

}  // namespace lockstep::cli
