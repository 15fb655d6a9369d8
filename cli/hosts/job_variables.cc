// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts/job_variables.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/hex.h"
#include "lockstep/base/options.h"
#include "lockstep/coordination/proxy/host_proxy.h"
#include "lockstep/watch/memory.h"

namespace lockstep::cli {
namespace {

// Whether a variable is one that an outer job has set for this process, if it is one of its processes. Not
// all processes of this launcher get a value of their own for these, so they must not inherit them.
bool is_of_outer_job(std::string_view name) {
  const bool set_for_some = name == "LOCKSTEP_LOCAL_PROCESS_ID" || name == "LOCKSTEP_TERMINAL" ||
                            name == watch::kDescriptorVariable;
  return set_for_some && std::getenv("LOCKSTEP_LAUNCHER") != nullptr;
}

}  // namespace

JobIdentity new_job(int num_processes) {
  return {.num_processes = num_processes, .job_id = random_hex(8), .attempt = 0, .secret = random_hex(16)};
}

std::map<std::string, std::string> process_variables(const JobIdentity& job, int process_id) {
  return {
      {"LOCKSTEP_LAUNCHER", "1"},
      {std::string(options::kCoordinatorAddress.variable), job.coordinator_address},
      {std::string(options::kNumProcesses.variable), std::to_string(job.num_processes)},
      {std::string(options::kProcessId.variable), std::to_string(process_id)},
      {"LOCKSTEP_JOB_ID", job.job_id},
      {"LOCKSTEP_ATTEMPT", std::to_string(job.attempt)},
      {"LOCKSTEP_JOB_SECRET", job.secret},
      {coordination::kProxyVariable, ""},  // not that of a job around this one
  };
}

std::map<std::string, std::string> on_host(std::map<std::string, std::string> variables, int number,
                                           int count, int threads) {
  // Each of several takes the GPU of its number; one alone takes all.
  if (count > 1) variables.emplace("LOCKSTEP_LOCAL_PROCESS_ID", std::to_string(number));
  // Bounds XLA's pool of threads.
  if (std::getenv("NPROC") == nullptr) variables.emplace("NPROC", std::to_string(threads));
  return variables;
}

std::map<std::string, std::string> travelling_variables() {
  std::map<std::string, std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    if (!text.starts_with("LOCKSTEP_") && !text.starts_with("JAX_")) continue;
    if (is_of_outer_job(text.substr(0, equals))) continue;
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::pair<std::string, std::string> parse_variable(const std::string& text) {
  const std::size_t equals = text.find('=');
  std::string name = text.substr(0, equals);
  if (name.empty()) fail("'{}' does not name a variable: expected NAME or NAME=VALUE", text);
  if (equals != std::string::npos) return {std::move(name), text.substr(equals + 1)};
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) fail("the variable {} is not set here: set it, or give {}=VALUE", name, name);
  return {std::move(name), value};
}

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> result;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    if (!variables.contains(std::string(name)) && !is_of_outer_job(name)) result.emplace_back(text);
  }
  for (const auto& [name, value] : variables) result.push_back(name + "=" + value);
  return result;
}

}  // namespace lockstep::cli
