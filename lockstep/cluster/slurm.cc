// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/fail.h"
#include "lockstep/cluster/node_list.h"
#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {
namespace {

/// Steps of one job may run at once: each has a port of its own, the first one JAX's. The number of a job of
/// a federation needs all of its 32 bits.
int step_port(const Variable& job, const std::string& step) {
  return port_for(id_in(job) + 1031 * whole_number(step).value_or(0));
}

}  // namespace

std::optional<Place> slurm_place(const Environment& environment, const System&) {
  Signs signs(environment);
  auto step = signs.need({"SLURM_STEP_ID", "SLURM_STEPID"});
  auto num_tasks = signs.need({"SLURM_STEP_NUM_TASKS"});
  auto node_list = signs.need({"SLURM_STEP_NODELIST"});
  if (signs.there().empty()) return std::nullopt;
  auto task = signs.need({"SLURM_PROCID"});
  auto job = signs.need({"SLURM_JOB_ID", "SLURM_JOBID"});
  auto local_id = signs.want({"SLURM_LOCALID"});
  signs.check_launcher("Slurm's step",
                       "start the program with srun itself, without a wrapper that clears its variables");
  Place place = numbered_place("slurm", signs, *task, *num_tasks);
  if (local_id) place.local_process_id = number_in(*local_id, 0);
  place.job_id = "slurm-" + job->value + "." + step->value;
  if (auto cluster = find_variable(environment, {"SLURM_CLUSTER_NAME"}))
    place.job_id = "slurm-" + cluster->value + "-" + job->value + "." + step->value;
  if (auto restarts = find_variable(environment, {"SLURM_RESTART_COUNT"}))
    place.attempt = number_in(*restarts, 0);
  if (auto address = given_address(environment)) {
    place.coordinator_address = address->value;
    return place;
  }
  std::vector<std::string> nodes;
  try {
    nodes = expand_node_list(node_list->value);
  } catch (const InitializationError& error) {
    fail<InitializationError>("the environment variable {}: {}", node_list->name, error.what());
  }
  if (auto count = find_variable(environment, {"SLURM_STEP_NUM_NODES"});
      count && number_in(*count, 1) != static_cast<int>(nodes.size())) {
    fail<InitializationError>(
        "{} names {} nodes, but {}; set LOCKSTEP_COORDINATOR_ADDRESS to a host and port "
        "of process 0's node",
        node_list->to_string(), nodes.size(), count->to_string());
  }
  // A step on one node needs no port that other hosts can reach.
  const std::string host = nodes.size() == 1 ? "127.0.0.1" : nodes.front();
  place.coordinator_address = coordinator_at(environment, host, step_port(*job, step->value));
  return place;
}

}  // namespace lockstep::cluster
