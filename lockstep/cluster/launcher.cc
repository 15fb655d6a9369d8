// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/fail.h"
#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {

std::optional<Place> launcher_place(const Environment& environment, const System& system) {
  auto sign = find_variable(environment, {"LOCKSTEP_LAUNCHER"});
  if (!sign || sign->value == "0") return std::nullopt;
  refuse_half_set(environment);
  std::optional<Place> place = explicit_place(environment, system);
  if (!place) {
    fail<InitializationError>(
        "{} says that `lockstep run` started this process, but LOCKSTEP_COORDINATOR_ADDRESS, "
        "LOCKSTEP_NUM_PROCESSES and LOCKSTEP_PROCESS_ID are missing: something between the launcher and this "
        "process has cleared them; pass the environment on, or unset LOCKSTEP_LAUNCHER",
        sign->to_string());
  }
  place->cluster = "launcher";
  place->why = sign->to_string() + ", " + place->why;
  return place;
}

}  // namespace lockstep::cluster
