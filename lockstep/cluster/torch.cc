// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/fail.h"
#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {
namespace {

/// The names of the variables, for each the strongest first.
struct Names {
  std::vector<std::string> size, rank, host, port;
};

Names torch_names() { return {{"WORLD_SIZE"}, {"RANK"}, {"MASTER_ADDR"}, {"MASTER_PORT"}}; }

Names kubeflow_names() {
  return {{"PET_NNODES"},
          {"PET_NODE_RANK"},
          {"PET_MASTER_ADDR", "MASTER_ADDR"},
          {"PET_MASTER_PORT", "MASTER_PORT"}};
}

/// The place in a job of processes that meet at MASTER_ADDR, whose port is the launcher's own: the
/// coordinator's is derived from it.
Place master_place(const Environment& environment, const std::string& cluster, const std::string& who,
                   const Names& names) {
  Signs signs(environment);
  auto size = signs.need(names.size), rank = signs.need(names.rank);
  auto local_rank = signs.want({"LOCAL_RANK"}), local_size = signs.want({"LOCAL_WORLD_SIZE"});
  const bool alone = size && rank && size->value == "1" && rank->value == "0";
  std::optional<Variable> host, port;
  if (!alone && !given_address(environment)) {
    host = signs.need(names.host);
    port = signs.need(names.port);
  }
  signs.check_launcher(
      who,
      "start it without a wrapper that clears its variables, or set LOCKSTEP_COORDINATOR_ADDRESS, "
      "LOCKSTEP_NUM_PROCESSES and LOCKSTEP_PROCESS_ID for each process");
  Place place = numbered_place(cluster, signs, *rank, *size);
  if (local_rank) place.local_process_id = number_in(*local_rank, 0);
  if (alone) return place;
  meet_at_launcher(environment, host, port, local_size, place);
  return place;
}

}  // namespace

std::optional<Place> torchrun_place(const Environment& environment, const System&) {
  auto run = find_variable(environment, {"TORCHELASTIC_RUN_ID"});
  if (!run) return std::nullopt;
  Place place = master_place(environment, "torchrun", "torchrun", torch_names());
  if (auto restarts = find_variable(environment, {"TORCHELASTIC_RESTART_COUNT"}))
    place.attempt = number_in(*restarts, 0);
  place.why = run->to_string() + ", " + place.why;
  return place;
}

std::optional<Place> torch_place(const Environment& environment, const System&) {
  // A pod of PyTorchJob or TrainJob that did not start torchrun is one process, with all the pod's devices.
  if (find_variable(environment, {"PET_NNODES", "PET_NODE_RANK"}) &&
      !find_variable(environment, {"LOCAL_RANK"})) {
    return master_place(environment, "torch", "Kubeflow", kubeflow_names());
  }
  auto size = find_variable(environment, {"WORLD_SIZE"}), rank = find_variable(environment, {"RANK"});
  if (!rank && (!size || size->value == "1")) return std::nullopt;
  return master_place(environment, "torch", "the environment", torch_names());
}

}  // namespace lockstep::cluster
