#include "lockstep/base/fail.h"
#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {

std::optional<Place> launcher_place(const Environment& environment) {
  auto sign = find_variable(environment, {"LOCKSTEP_LAUNCHER"});
  if (!sign || sign->value == "0") return std::nullopt;
  std::optional<Place> place = explicit_place(environment);
  if (!place) {
    fail<InitializationError>(
        "{} says that `lockstep run` started this process, but LOCKSTEP_COORDINATOR_ADDRESS, "
        "LOCKSTEP_NUM_PROCESSES "
        "and LOCKSTEP_PROCESS_ID are missing: something between the launcher and this process has cleared "
        "them; "
        "pass the environment on, or unset LOCKSTEP_LAUNCHER",
        sign->to_string());
  }
  place->cluster = "launcher";
  place->why = sign->to_string() + ", " + place->why;
  if (auto job = find_variable(environment, {"LOCKSTEP_JOB_ID"})) place->job_id = job->value;
  if (auto attempt = find_variable(environment, {"LOCKSTEP_ATTEMPT"}))
    place->attempt = number_in(*attempt, 0);
  if (auto secret = find_variable(environment, {"LOCKSTEP_JOB_SECRET"})) place->job_secret = secret->value;
  return place;
}

}  // namespace lockstep::cluster
