// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/detect.h"

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/options.h"
#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {
namespace {

/// Whether detection is turned off.
bool means_none(const std::string& forced) { return forced == "none" || forced == "deactivate"; }

Place alone(const std::string& forced) {
  Place place;
  place.cluster = "single";
  place.why = "cluster type '" + forced + "' was asked for";
  return place;
}

/// Settings of the user must agree with the launcher's, unless they replace it completely.
void refuse_contradiction(const Environment& environment, const Place& place) {
  auto compare = [&](const std::vector<std::string>& names, int launcher) {
    auto variable = find_variable(environment, names);
    if (!variable || number_in(*variable, 0) == launcher) return;
    fail<InitializationError>(
        "{}, but cluster type '{}' says process {} of {} ({}); unset the variable, or set "
        "LOCKSTEP_COORDINATOR_ADDRESS, LOCKSTEP_NUM_PROCESSES and LOCKSTEP_PROCESS_ID, which then take "
        "precedence",
        variable->to_string(), place.cluster, place.process_id, place.num_processes, place.why);
  };
  compare(variables_of(options::kNumProcesses), place.num_processes);
  compare(variables_of(options::kProcessId), place.process_id);
}

/// Checks and adds what applies to every cluster type.
Place complete(const Environment& environment, Place place) {
  const bool by_hand = place.cluster == "launcher" || place.cluster == "explicit";
  if (!by_hand && place.cluster != "single") {
    refuse_contradiction(environment, place);
    if (place.num_processes == 1) place.coordinator_address.clear();
  }
  return with_identity(environment, std::move(place));
}

/// Prevents that each of several processes assumes to be the only one.
void refuse_silent_single(const Environment& environment, const Place& place) {
  auto sign = sign_of_others(environment);
  if (place.cluster != "explicit" || place.num_processes > 1 || !sign) return;
  fail<InitializationError>(
      "{} makes this process a job of one, but {} says that a launcher has started several; unset the "
      "LOCKSTEP_ and JAX_ variables to join them, or set LOCKSTEP_CLUSTER=explicit to run each as a job of "
      "its own",
      place.why, *sign);
}

}  // namespace

Place with_identity(const Environment& environment, Place place) {
  if (auto ids = find_variable(environment, options::kLocalDeviceIds)) {
    place.local_device_ids = numbers_in(*ids);
    place.why += ", " + ids->to_string();
  }
  if (auto job = find_variable(environment, {"LOCKSTEP_JOB_ID"})) place.job_id = job->value;
  place.job_id = shown(place.job_id);  // it becomes a part of keys
  if (auto attempt = find_variable(environment, {"LOCKSTEP_ATTEMPT"})) place.attempt = number_in(*attempt, 0);
  if (auto secret = find_variable(environment, {"LOCKSTEP_JOB_SECRET"})) place.job_secret = secret->value;
  return place;
}

std::optional<Place> find_place(const Environment& environment, const std::string& forced,
                                const System& system) {
  if (forced == "single" || means_none(forced)) return std::nullopt;
  std::string names;
  for (const ClusterType& type : kClusterTypes) {
    const std::string name = type.name;
    names += (names.empty() ? "" : ", ") + name;
    if ((!forced.empty() && forced != name) || name == "single") continue;
    if (auto place = type.place(environment, system)) {
      if (forced.empty()) refuse_silent_single(environment, *place);
      return complete(environment, *place);
    }
    if (forced.empty()) continue;
    if (forced == "explicit") refuse_half_set(environment);
    fail<InitializationError>(
        "the cluster type '{}' was asked for, but the environment shows no sign of it; leave the type out to "
        "have it detected",
        shown(forced));
  }
  if (forced.empty()) return std::nullopt;
  fail<InitializationError>("there is no cluster type '{}'; the types are {}, and none", shown(forced),
                            names);
}

Place detect(const Environment& environment, const std::string& forced, const System& system) {
  if (auto place = find_place(environment, forced, system)) return *place;
  return complete(environment, forced.empty() ? *single_place(environment, system) : alone(forced));
}

}  // namespace lockstep::cluster
