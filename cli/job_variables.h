#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
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

/// A new id and secret; the processes are started for the first time, with a coordinator yet to come.
JobIdentity new_job(int num_processes);

/// How the launcher was asked to set up the processes; what is not given is left to them.
struct ProcessSettings {
  std::optional<int> devices_per_process;
  std::optional<int> heartbeat_timeout;  ///< Seconds, as the next two.
  std::optional<int> initialization_timeout;
  std::optional<int> shutdown_timeout;
  std::optional<std::string> interface;   ///< The network interface to use on every host.
  std::optional<std::string> log_folder;  ///< Where metrics go.
  bool terminal = false;  ///< Standard output ends on a terminal, though through the launcher.
};

/// The variables that tell process `process_id` its place, and how to behave. With those of `on_host` that is
/// all that a launched process is told by its environment.
std::map<std::string, std::string> process_variables(const JobIdentity& job, const ProcessSettings& settings,
                                                     int process_id);

/// The variables, the process's number among the `count` of its host, where there are several, and its share
/// of the cores, in threads, where the user has not set NPROC.
std::map<std::string, std::string> on_host(std::map<std::string, std::string> variables, int number,
                                           int count, int threads);

/// What goes to other hosts of this process's environment: LOCKSTEP_... and JAX_...
std::map<std::string, std::string> travelling_variables();

/// Reads what a user asks for: "NAME=VALUE", or "NAME" for its value here. Throws Error where there is no
/// name, or no such variable here.
std::pair<std::string, std::string> parse_variable(const std::string& text);

/// The environment of this process with the variables over it, as "NAME=value".
std::vector<std::string> merged_environment(const std::map<std::string, std::string>& variables);

}  // namespace lockstep::cli
