// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/fail.h"
#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {
namespace {

/// Variables in which launchers set the number of processes.
const char* const kSizes[] = {
    "OMPI_COMM_WORLD_SIZE",  // Open MPI
    "PMI_SIZE",              // MPICH, Intel MPI, Slurm with PMI, Flux
    "SLURM_STEP_NUM_TASKS",  // Slurm
    "MV2_COMM_WORLD_SIZE",   // MVAPICH
    "FLUX_JOB_SIZE",         // Flux
    "JSM_NAMESPACE_SIZE",    // jsrun
    "WORLD_SIZE",            // torchrun and what follows its custom
};

}  // namespace

std::optional<std::string> sign_of_others(const Environment& environment) {
  for (const char* name : kSizes) {
    auto size = find_variable(environment, {name});
    if (size && size->value != "1" && size->value != "0") return size->to_string();
  }
  return std::nullopt;
}

std::optional<Place> single_place(const Environment& environment, const System&) {
  refuse_half_set(environment);
  std::string sign = sign_of_others(environment).value_or("");
  // The size of a PMIx job is not in its environment.
  if (auto rank = find_variable(environment, {"PMIX_RANK"}); sign.empty() && rank) sign = rank->to_string();
  if (!sign.empty()) {
    fail<InitializationError>(
        "{} says that a launcher has started this process as one of several, but not all that is needed to "
        "join the others; set LOCKSTEP_COORDINATOR_ADDRESS, LOCKSTEP_NUM_PROCESSES and LOCKSTEP_PROCESS_ID "
        "for each process, or LOCKSTEP_CLUSTER=none where each is to be alone",
        sign);
  }
  Place place;
  place.cluster = "single";
  place.why = "no variable of a launcher or a cluster is set";
  if (auto job = find_variable(environment, {"SLURM_JOB_ID"}))
    place.why = job->to_string() + ", but this process is in no step: srun starts one";
  return place;
}

}  // namespace lockstep::cluster
