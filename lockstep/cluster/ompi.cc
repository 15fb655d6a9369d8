// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include "lockstep/base/fail.h"
#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {
namespace {

/// mpirun, as its processes know it.
struct Mpirun {
  std::vector<std::string> hosts;  ///< Its names or addresses, the best first.
  int port = 0;                    ///< What all its processes take for the coordinator.
  std::string job_id;
};

/// The number with which the text starts; nullopt if it does not start with one.
std::optional<unsigned long long> leading_number(std::string_view text) {
  unsigned long long number = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc()) return std::nullopt;
  return number;
}

/// Open MPI 4: "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911;tcp6://[fd00::2]:47225".
std::optional<Mpirun> from_uri(const std::string& uri) {
  Mpirun mpirun;
  auto job = leading_number(uri);
  if (!job) return std::nullopt;
  mpirun.port = port_for(*job >> 12);  // the lower bits count mpirun's own jobs
  mpirun.job_id = "ompi-" + std::to_string(*job);
  std::string_view rest = uri;
  while (true) {
    const auto semicolon = rest.find(';');
    if (semicolon == std::string_view::npos) break;
    rest.remove_prefix(semicolon + 1);
    std::string_view part = rest.substr(0, rest.find(';'));
    if (part.starts_with("tcp://") || part.starts_with("tcp4://")) {
      part.remove_prefix(part.find("//") + 2);
      part = part.substr(0, part.rfind(':'));
    } else if (part.starts_with("tcp6://[")) {
      part.remove_prefix(8);
      part = part.substr(0, part.find(']'));
    } else {
      continue;
    }
    while (!part.empty()) {
      const auto comma = std::min(part.find(','), part.size());
      if (comma > 0) mpirun.hosts.emplace_back(part.substr(0, comma));
      part.remove_prefix(std::min(comma + 1, part.size()));
    }
  }
  if (mpirun.hosts.empty()) return std::nullopt;
  return mpirun;
}

/// Open MPI 5: "prterun-HOST-PID@JOB", or "prte-HOST-PID@JOB" under a daemon that runs several jobs.
std::optional<Mpirun> from_namespace(const std::string& name) {
  const auto at = name.rfind('@'), dash = name.rfind('-', at), first = name.find('-');
  if (at == std::string::npos || dash == std::string::npos || first >= dash) return std::nullopt;
  auto pid = leading_number(std::string_view(name).substr(dash + 1));
  auto job = leading_number(std::string_view(name).substr(at + 1));
  if (!pid || !job) return std::nullopt;
  return Mpirun{{name.substr(first + 1, dash - first - 1)}, port_for(*pid + *job - 1), "ompi-" + name};
}

/// mpirun's address in the network of the interface that the user chose, the same on each host; its first
/// address if none was chosen.
std::string host_of(const Mpirun& mpirun, const Environment& environment, const System& system) {
  auto interface = find_variable(environment, {"LOCKSTEP_INTERFACE"});
  if (!interface) return mpirun.hosts.front();
  for (const InterfaceAddress& mine : system.interface_addresses()) {
    if (mine.interface != interface->value) continue;
    for (const std::string& host : mpirun.hosts)
      if (in_network_of(host, mine)) return host;
  }
  return mpirun.hosts.front();
}

}  // namespace

std::optional<Place> ompi_place(const Environment& environment, const System& system) {
  Signs signs(environment);
  auto size = signs.need({"OMPI_COMM_WORLD_SIZE"});
  auto rank = signs.need({"OMPI_COMM_WORLD_RANK"});
  auto local_rank = signs.want({"OMPI_COMM_WORLD_LOCAL_RANK"});
  auto local_size = signs.want({"OMPI_COMM_WORLD_LOCAL_SIZE"});
  if (signs.there().empty()) return std::nullopt;
  auto address = given_address(environment);
  auto uri = find_variable(environment, {"OMPI_MCA_orte_hnp_uri"});
  std::optional<Variable> name;
  if (!uri && !address) name = signs.need({"PMIX_NAMESPACE"});
  signs.check_launcher("Open MPI",
                       "start it with mpirun itself, without a wrapper that clears its variables");
  Place place = numbered_place("ompi", signs, *rank, *size);
  if (local_rank) place.local_process_id = number_in(*local_rank, 0);
  std::optional<Mpirun> mpirun;
  if (uri) {
    mpirun = from_uri(uri->value);
  } else if (name) {
    mpirun = from_namespace(name->value);
  }
  if (mpirun) place.job_id = mpirun->job_id;
  if (address) {
    place.coordinator_address = address->value;
  } else if (mpirun) {
    const bool one_host = local_size && local_size->value == size->value;
    place.coordinator_address = coordinator_at(
        environment, one_host ? "127.0.0.1" : host_of(*mpirun, environment, system), mpirun->port);
  } else {
    fail<InitializationError>(
        "Open MPI started this process ({}), but {} does not say on which host mpirun runs; set "
        "LOCKSTEP_COORDINATOR_ADDRESS to a host and port of process 0's host (mpirun -x)",
        place.why, (uri ? uri : name)->to_string());
  }
  return place;
}

}  // namespace lockstep::cluster
