// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/fail.h"
#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {
namespace {

/// The index in a pod's name: the leader is "SET-GROUP", a worker "SET-GROUP-INDEX".
std::optional<Variable> index_in_name(const Environment& environment, const System& system,
                                      const std::string& leader) {
  const std::string host = pod_name(environment, system);
  const std::string first = leader.substr(0, leader.find('.'));
  if (host == first) return Variable{"the index in the pod's name", "0"};
  const std::string index = host.starts_with(first + "-") ? host.substr(first.size() + 1) : "";
  if (index.empty() || index.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return Variable{"the index in the pod's name", index};
}

}  // namespace

std::optional<Place> lws_place(const Environment& environment, const System& system) {
  Signs signs(environment);
  auto leader = signs.need({"LWS_LEADER_ADDRESS"});
  auto size = signs.need({"LWS_GROUP_SIZE"});
  auto index = signs.want({"LWS_WORKER_INDEX"});
  if (signs.there().empty()) return std::nullopt;
  // Versions before 0.6 do not set it.
  if (!index && leader) index = index_in_name(environment, system, leader->value);
  if (!index) signs.need({"LWS_WORKER_INDEX"});
  signs.check_launcher("LeaderWorkerSet",
                       "give LWS_WORKER_INDEX from the label leaderworkerset.sigs.k8s.io/worker-index, and "
                       "clear none of the set's variables");
  Place place = numbered_place("lws", signs, *index, *size);
  place.job_id = "lws-" + leader->value;
  place.coordinator_address = coordinator_given_or_at(environment, leader->value, kCoordinatorPort);
  return place;
}

}  // namespace lockstep::cluster
