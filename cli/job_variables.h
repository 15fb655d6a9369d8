#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cli {

/// What all processes of a job are told alike.
struct JobIdentity {
  std::string coordinator_address;
  int num_processes = 1;
  std::string job_id;
  int attempt = 0;
  std::string secret;
};

/// A new id and secret; the processes are started for the first time.
JobIdentity new_job(std::string coordinator_address, int num_processes);

/// How the launcher was asked to set up the processes; what is not given is left to them.
struct ProcessSettings {
  std::optional<int> devices_per_process;
  std::optional<int> heartbeat_timeout;  ///< Seconds, as the next two.
  std::optional<int> initialization_timeout;
  std::optional<int> shutdown_timeout;
  int threads = 1;        ///< The process's share of the cores.
  bool terminal = false;  ///< Standard output ends on a terminal, though through the launcher.
};

/// The variables that tell process `process_id` its place, and how to behave on a machine that it shares. All
/// that a launched process is told by its environment stands here.
std::map<std::string, std::string> process_variables(const JobIdentity& job, const ProcessSettings& settings,
                                                     int process_id);

/// The environment of this process with the variables over it, as "NAME=value". NPROC is kept as the user set
/// it.
std::vector<std::string> merged_environment(const std::map<std::string, std::string>& variables);

}  // namespace lockstep::cli
