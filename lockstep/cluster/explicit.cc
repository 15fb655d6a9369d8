// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/options.h"
#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {
namespace {

/// The three variables, the strongest name of each first.
struct Explicit {
  Signs signs;
  std::optional<Variable> address, num_processes, process_id;

  explicit Explicit(const Environment& environment)
      : signs(environment),
        address(signs.need(variables_of(options::kCoordinatorAddress))),
        num_processes(signs.need(variables_of(options::kNumProcesses))),
        process_id(signs.need(variables_of(options::kProcessId))) {}
};

}  // namespace

void refuse_half_set(const Environment& environment) {
  Explicit variables(environment);
  if (variables.signs.there().empty()) return;
  variables.signs.check("the environment", "set all of them, or none for a job of one process");
}

std::optional<Place> explicit_place(const Environment& environment, const System&) {
  Explicit variables(environment);
  if (!variables.signs.complete()) return std::nullopt;
  Place place = numbered_place("explicit", variables.signs, *variables.process_id, *variables.num_processes);
  place.coordinator_address = variables.address->value;
  if (auto local = find_variable(environment, {"LOCKSTEP_LOCAL_PROCESS_ID"}))
    place.local_process_id = number_in(*local, 0);
  return place;
}

}  // namespace lockstep::cluster
