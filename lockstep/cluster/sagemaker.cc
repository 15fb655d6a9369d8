// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"
#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {
namespace {

constexpr const char* kFile = "/opt/ml/input/config/resourceconfig.json";

/// The names in a list of JSON. Throws InitializationError for anything else.
std::vector<std::string> names_in(const nlohmann::json& list, const std::string& source) {
  std::vector<std::string> names;
  if (list.is_array())
    for (const auto& name : list)
      if (name.is_string() && !name.get_ref<const std::string&>().empty()) names.push_back(name);
  if (names.empty() || names.size() != list.size() ||
      std::set(names.begin(), names.end()).size() != names.size())
    fail<InitializationError>("{}: expected a list of the hosts' names, such as [\"algo-1\",\"algo-2\"]",
                              source);
  return names;
}

/// SageMaker's description of its hosts: in the variables of its training toolkit, or in its file, which
/// every training container has.
struct Hosts {
  std::vector<std::string> names;
  std::string current, why;
};

Hosts from_variables(const Variable& hosts, const Variable& current) {
  return {names_in(try_parse_json(hosts.value), hosts.to_string()), current.value,
          hosts.to_string() + ", " + current.to_string()};
}

Hosts from_file(const std::string& text) {
  const auto file = try_parse_json(text);
  if (!file.is_object() || !file.contains("hosts") || !file.contains("current_host") ||
      !file["current_host"].is_string()) {
    fail<InitializationError>("{}: expected an object with hosts and current_host, as SageMaker writes it",
                              kFile);
  }
  Hosts hosts{names_in(file["hosts"], std::string(kFile) + ", hosts"), file["current_host"], ""};
  hosts.why = fmt::format("{}: host {} of {}", kFile, hosts.current, hosts.names.size());
  return hosts;
}

}  // namespace

std::optional<Place> sagemaker_place(const Environment& environment, const System& system) {
  Signs signs(environment);
  auto names = signs.need({"SM_HOSTS"}), current = signs.need({"SM_CURRENT_HOST"});
  Hosts hosts;
  if (auto file = system.read_file(kFile); file && !signs.complete()) {
    hosts = from_file(*file);
  } else if (signs.there().empty()) {
    return std::nullopt;
  } else {
    signs.check_launcher("SageMaker", "start it without a wrapper that clears its variables");
    hosts = from_variables(*names, *current);
  }
  const auto found = std::find(hosts.names.begin(), hosts.names.end(), hosts.current);
  if (found == hosts.names.end()) {
    fail<InitializationError>("SageMaker's host '{}' is not among its hosts: {} ({})", hosts.current,
                              fmt::join(hosts.names, ", "), hosts.why);
  }
  Place place;
  place.cluster = "sagemaker";
  place.why = hosts.why;
  place.num_processes = static_cast<int>(hosts.names.size());
  place.process_id = static_cast<int>(found - hosts.names.begin());
  if (auto job = find_variable(environment, {"TRAINING_JOB_NAME"})) place.job_id = "sagemaker-" + job->value;
  place.coordinator_address = coordinator_given_or_at(environment, hosts.names.front(), kCoordinatorPort);
  return place;
}

}  // namespace lockstep::cluster
