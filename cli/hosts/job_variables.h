// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::cli {

/// The information that is the same for all processes of a job.
struct JobIdentity {
  std::string coordinator_address;
  int num_processes = 1;
  std::string job_id;
  int attempt = 0;
  std::string secret;
};

/// A new id and secret, for the first start of the job; the coordinator is added later.
JobIdentity new_job(int num_processes);

/// The variables that tell process `process_id` its place. Together with the options that were given to the
/// launcher (JobOptions::settings) and the variables of `on_host`, this is everything that a launched process
/// gets through its environment.
std::map<std::string, std::string> process_variables(const JobIdentity& job, int process_id);

/// Adds to the variables the process's number among the `count` processes of its host, if there are several,
/// and its share of the cores, in threads, unless the user has set NPROC.
std::map<std::string, std::string> on_host(std::map<std::string, std::string> variables, int number,
                                           int count, int threads);

/// The variables of this process's environment that are sent to other hosts: LOCKSTEP_... and JAX_...
std::map<std::string, std::string> travelling_variables();

/// Parses the user's "NAME=VALUE", or "NAME" for its value here. Throws Error if there is no name, or no such
/// variable here.
std::pair<std::string, std::string> parse_variable(const std::string& text);

/// This process's environment, overridden by the variables, as "NAME=value".
std::vector<std::string> merged_environment(const std::map<std::string, std::string>& variables);

}  // namespace lockstep::cli
