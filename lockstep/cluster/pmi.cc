// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "lockstep/base/fail.h"
#include "lockstep/base/fingerprint.h"
#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {
namespace {

constexpr int kMostAncestors = 64;

/// mpiexec, as its processes know it.
struct Mpiexec {
  std::string host;  ///< Empty where it is not known.
  int port = 0;      ///< What all its processes take for the coordinator.
  std::string job_id;
};

/// The parent in "PID (NAME) STATE PARENT ...", where NAME may contain anything; 0 if there is none.
int parent_in(const std::string& stat) {
  const auto name_end = stat.rfind(')');
  if (name_end == std::string::npos || name_end + 4 >= stat.size()) return 0;
  int parent = 0;
  std::from_chars(stat.data() + name_end + 4, stat.data() + stat.size(), parent);
  return parent;
}

/// MPICH: an ancestor is "hydra_pmi_proxy --control-port HOST:PORT ...", the same on all hosts except for its
/// number.
std::optional<Mpiexec> from_proxy(const System& system) {
  int process = parent_in(system.read_file("/proc/self/stat").value_or(""));
  for (int i = 0; i < kMostAncestors && process > 1; ++i) {
    const std::string folder = "/proc/" + std::to_string(process);
    const std::string command = system.read_file(folder + "/cmdline").value_or("");
    const std::string option = std::string("\0--control-port\0", 16);
    const auto at = command.find(option);
    if (command.substr(0, command.find('\0')).ends_with("hydra_pmi_proxy") && at != std::string::npos) {
      const auto start = at + option.size();
      const std::string value = command.substr(start, command.find('\0', start) - start);
      const auto colon = value.rfind(':');
      int port = 0;
      if (colon == std::string::npos || colon == 0) return std::nullopt;
      std::from_chars(value.data() + colon + 1, value.data() + value.size(), port);
      if (port < 1) return std::nullopt;
      return Mpiexec{value.substr(0, colon), port_for(static_cast<unsigned>(port)), "pmi-" + value};
    }
    process = parent_in(system.read_file(folder + "/stat").value_or(""));
  }
  return std::nullopt;
}

/// Intel MPI: a text of each mpiexec's own, without its host.
std::optional<Mpiexec> from_uuid(const Environment& environment) {
  auto uuid = find_variable(environment, {"I_MPI_HYDRA_UUID"});
  if (!uuid) return std::nullopt;
  return Mpiexec{"", port_for(fingerprint(uuid->value)), "pmi-" + uuid->value};
}

/// PALS (HPE Cray): an id of each job's own, without mpiexec's host.
std::optional<Mpiexec> from_pals(const Environment& environment) {
  auto id = find_variable(environment, {"PALS_APID"});
  if (!id) return std::nullopt;
  return Mpiexec{"", port_for(fingerprint(id->value)), "pals-" + id->value};
}

}  // namespace

std::optional<Place> pmi_place(const Environment& environment, const System& system) {
  auto local_size = find_variable(environment, {"MPI_LOCALNRANKS"});
  // srun --mpi=pmi2 sets PMI_RANK, too, but Slurm's own variables have more information.
  if (!local_size && find_variable(environment, {"SLURM_STEP_ID", "SLURM_STEPID"})) return std::nullopt;
  Signs signs(environment);
  auto rank = signs.need({"PMI_RANK", "PMI_ID"});
  auto size = signs.need({"PMI_SIZE"});
  auto local_rank = signs.want({"MPI_LOCALRANKID", "PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"});
  local_size = signs.want({"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"});
  if (signs.there().empty()) return std::nullopt;
  signs.check_launcher(
      "PMI",
      "start it with mpiexec itself, without -pmi-port and without a wrapper that clears its variables");
  Place place = numbered_place("pmi", signs, *rank, *size);
  if (local_rank) place.local_process_id = number_in(*local_rank, 0);
  std::optional<Mpiexec> mpiexec = from_uuid(environment);
  if (!mpiexec) mpiexec = from_pals(environment);
  if (!mpiexec) mpiexec = from_proxy(system);
  if (mpiexec) place.job_id = mpiexec->job_id;
  const bool one_host = local_size && local_size->value == size->value;
  if (auto address = given_address(environment)) {
    place.coordinator_address = address->value;
  } else if (mpiexec && (one_host || !mpiexec->host.empty())) {
    place.coordinator_address =
        coordinator_at(environment, one_host ? "127.0.0.1" : mpiexec->host, mpiexec->port);
  } else if (place.num_processes > 1) {
    fail<InitializationError>(
        "PMI tells this process its place ({}), but neither its environment nor an ancestor hydra_pmi_proxy "
        "says where the others are; set LOCKSTEP_COORDINATOR_ADDRESS to a host and port of process 0's host "
        "(mpiexec -genv LOCKSTEP_COORDINATOR_ADDRESS HOST:PORT; with PALS --env "
        "LOCKSTEP_COORDINATOR_ADDRESS=HOST:PORT)",
        place.why);
  }
  return place;
}

}  // namespace lockstep::cluster
