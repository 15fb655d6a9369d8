// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {

std::optional<Place> jaxjob_place(const Environment& environment, const System&) {
  Signs signs(environment);
  auto size = signs.need({"NUM_PROCESSES"}), rank = signs.need({"PROCESS_ID"});
  auto host = signs.need({"COORDINATOR_ADDRESS"}), port = signs.need({"COORDINATOR_PORT"});
  // Names that anybody may give to something else: of one alone only Kubernetes' is Kubeflow's.
  const int there = int(size.has_value()) + int(rank.has_value()) + int(host.has_value() || port.has_value());
  const bool pod = find_variable(environment, {"KUBERNETES_SERVICE_HOST"}).has_value();
  if (there < (pod ? 1 : 2) || (!size && !rank)) return std::nullopt;
  signs.check_launcher("Kubeflow's JAXJob", "clear none of its variables");
  Place place = numbered_place("jaxjob", signs, *rank, *size);
  place.job_id = "jaxjob-" + host->value;
  place.coordinator_address = coordinator_given_or_at(environment, host->value, number_in(*port, 1));
  return place;
}

}  // namespace lockstep::cluster
