// SPDX-License-Identifier: Apache-2.0

#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"
#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {
namespace {

/// mlx.launch's processes and the address of the first.
struct Ring {
  int processes = 0;
  std::string host;
  Variable port;
};

/// The file of the ring: a list for each process, of its addresses, such as [["10.0.0.1:5000"],
/// ["10.0.0.2:5000"]].
Ring from_file(const Variable& variable, const System& system) {
  const auto text = system.read_file(variable.value);
  if (!text) fail<InitializationError>("{}: the file cannot be read", variable.to_string());
  const auto file = try_parse_json(*text);
  const auto refuse = [&] {
    fail<InitializationError>("{}: expected a list for each process, of its addresses HOST:PORT",
                              variable.to_string());
  };
  if (!file.is_array() || file.empty()) refuse();
  for (const auto& process : file)
    if (!process.is_array() || process.empty() || !process[0].is_string()) refuse();
  const std::string first = file[0][0];
  const auto colon = first.rfind(':');
  if (colon == std::string::npos || colon == 0) refuse();
  return {
      static_cast<int>(file.size()), first.substr(0, colon), {variable.to_string(), first.substr(colon + 1)}};
}

}  // namespace

std::optional<Place> mlx_place(const Environment& environment, const System& system) {
  Signs signs(environment);
  auto rank = signs.need({"MLX_RANK"});
  auto file = signs.want({"MLX_HOSTFILE"}), size = signs.want({"MLX_WORLD_SIZE"});
  if (signs.there().empty()) return std::nullopt;
  std::optional<Variable> host, port;
  if (!file && !size) {
    signs.need({"MLX_HOSTFILE"});
  } else if (!file) {
    host = signs.need({"NCCL_HOST_IP"});
    port = signs.need({"NCCL_PORT"});
  }
  signs.check_launcher(
      "mlx.launch",
      "start it with the backend ring or nccl and without a wrapper that clears its variables, or set "
      "LOCKSTEP_COORDINATOR_ADDRESS, LOCKSTEP_NUM_PROCESSES and LOCKSTEP_PROCESS_ID for each process");
  const Ring ring = file ? from_file(*file, system) : Ring{number_in(*size, 1), host->value, *port};
  if (number_in(*rank, 0) >= ring.processes) {
    fail<InitializationError>("{} is out of range: there are {} processes ({})", rank->to_string(),
                              ring.processes, signs.there());
  }
  Place place;
  place.cluster = "mlx";
  place.why = signs.there();
  place.num_processes = ring.processes;
  place.process_id = number_in(*rank, 0);
  place.coordinator_address =
      coordinator_given_or_at(environment, ring.host, port_for(number_in(ring.port, 1)));
  return place;
}

}  // namespace lockstep::cluster
