// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include "lockstep/base/fail.h"
#include "lockstep/base/fingerprint.h"
#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {

std::optional<Place> skypilot_place(const Environment& environment, const System&) {
  Signs signs(environment);
  auto size = signs.need({"SKYPILOT_NUM_NODES"});
  auto rank = signs.need({"SKYPILOT_NODE_RANK"});
  auto addresses = signs.need({"SKYPILOT_NODE_IPS"});
  if (signs.there().empty()) return std::nullopt;
  signs.check_launcher("SkyPilot",
                       "start it in the task's `run` without a wrapper that clears its variables");
  std::vector<std::string> nodes;
  std::istringstream lines(addresses->value);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) nodes.push_back(line);

  Place place = numbered_place("skypilot", signs, *rank, *size);
  if (nodes.size() != static_cast<std::size_t>(place.num_processes)) {
    fail<InitializationError>("SKYPILOT_NODE_IPS has {} addresses, but {} ({})", nodes.size(),
                              size->to_string(), place.why);
  }
  int port = kCoordinatorPort;
  if (auto task = find_variable(environment, {"SKYPILOT_TASK_ID"})) {
    place.job_id = "skypilot-" + task->value;
    port = port_for(fingerprint(task->value));  // several tasks may share the nodes
  }
  place.coordinator_address = coordinator_given_or_at(environment, nodes.front(), port);
  return place;
}

}  // namespace lockstep::cluster
