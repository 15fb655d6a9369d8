// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/fail.h"
#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {
namespace {

/// A launcher's variables for the number of processes and for a process's number among them.
struct Launcher {
  const char* size;
  const char* rank;
};

const Launcher kLaunchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},         // Open MPI
    {"PMI_SIZE", "PMI_RANK"},                                 // MPICH, Intel MPI, Slurm with PMI, Flux
    {"SLURM_STEP_NUM_TASKS", nullptr},                        // Slurm; SLURM_PROCID is a batch script's too
    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},           // MVAPICH
    {"FLUX_JOB_SIZE", "FLUX_TASK_RANK"},                      // Flux
    {"JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK"},             // jsrun
    {"WORLD_SIZE", "RANK"},                                   // torchrun and what follows its custom
    {"PET_NNODES", "PET_NODE_RANK"},                          // Kubeflow's PyTorchJob and TrainJob
    {"HOROVOD_SIZE", "HOROVOD_RANK"},                         // horovodrun
    {"MLX_WORLD_SIZE", "MLX_RANK"},                           // mlx.launch
    {"LWS_GROUP_SIZE", "LWS_WORKER_INDEX"},                   // LeaderWorkerSet
    {"AWS_BATCH_JOB_NUM_NODES", "AWS_BATCH_JOB_NODE_INDEX"},  // AWS Batch
    {"SKYPILOT_NUM_NODES", "SKYPILOT_NODE_RANK"},             // SkyPilot
    {"PADDLE_TRAINERS_NUM", "PADDLE_TRAINER_ID"},             // Paddle's launcher
    {"_CONDOR_NPROCS", "_CONDOR_PROCNO"},                     // HTCondor's parallel universe
    {nullptr, "PALS_RANKID"},                                 // PALS without PMI
    {nullptr, "PMIX_RANK"},      // PMIx; the sizes of both are not in the environment
    {nullptr, "VC_TASK_INDEX"},  // Volcano
};

/// A process's number where the number of processes is not told, or a number that is not the only one's.
std::optional<std::string> sign_of_a_rank(const Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    auto rank = launcher.rank ? find_variable(environment, {launcher.rank}) : std::nullopt;
    if (!rank) continue;
    const bool sized = launcher.size && find_variable(environment, {launcher.size});
    if (!sized || rank->value != "0") return rank->to_string();
  }
  // Slurm's batch script has the number 0.
  if (auto task = find_variable(environment, {"SLURM_PROCID"}); task && task->value != "0")
    return task->to_string();
  return std::nullopt;
}

}  // namespace

std::optional<std::string> sign_of_others(const Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    auto size = launcher.size ? find_variable(environment, {launcher.size}) : std::nullopt;
    if (size && size->value != "1" && size->value != "0") return size->to_string();
  }
  if (auto hosts = find_variable(environment, {"SM_HOSTS"});
      hosts && hosts->value.find(',') != std::string::npos)
    return hosts->to_string();
  return std::nullopt;
}

std::optional<Place> single_place(const Environment& environment, const System&) {
  refuse_half_set(environment);
  auto sign = sign_of_others(environment);
  if (!sign) sign = sign_of_a_rank(environment);
  if (sign) {
    fail<InitializationError>(
        "{} says that a launcher has started this process as one of several, but the environment lacks what "
        "is needed to join the others; set LOCKSTEP_COORDINATOR_ADDRESS, LOCKSTEP_NUM_PROCESSES and "
        "LOCKSTEP_PROCESS_ID for each process, or LOCKSTEP_CLUSTER=none to run each as a job of its own",
        *sign);
  }
  Place place;
  place.cluster = "single";
  place.why = "no variable of a launcher or a cluster is set";
  if (auto job = find_variable(environment, {"SLURM_JOB_ID"}))
    place.why = job->to_string() + ", but this process is in no step: srun starts one";
  return place;
}

}  // namespace lockstep::cluster
