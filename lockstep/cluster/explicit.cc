#include <fmt/format.h>

#include "lockstep/base/fail.h"
#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {
namespace {

/// The names of each, the strongest first.
const std::vector<std::string> kAddress = {"LOCKSTEP_COORDINATOR_ADDRESS", "JAX_COORDINATOR_ADDRESS"};
const std::vector<std::string> kNumProcesses = {"LOCKSTEP_NUM_PROCESSES", "JAX_NUM_PROCESSES"};
const std::vector<std::string> kProcessId = {"LOCKSTEP_PROCESS_ID", "JAX_PROCESS_ID"};
const std::vector<std::string> kLocalDeviceIds = {"LOCKSTEP_LOCAL_DEVICE_IDS", "JAX_LOCAL_DEVICE_IDS"};

}  // namespace

std::optional<Place> explicit_place(const Environment& environment) {
  auto address = find_variable(environment, kAddress);
  auto num_processes = find_variable(environment, kNumProcesses);
  auto process_id = find_variable(environment, kProcessId);
  auto local_device_ids = find_variable(environment, kLocalDeviceIds);
  if (!address && !num_processes && !process_id) return std::nullopt;

  std::string there, missing;
  auto note = [&](const std::optional<Variable>& variable, const std::vector<std::string>& names) {
    if (variable) {
      there += (there.empty() ? "" : ", ") + variable->to_string();
    } else {
      missing += (missing.empty() ? "" : ", ") + names.front();
    }
  };
  note(address, kAddress);
  note(num_processes, kNumProcesses);
  note(process_id, kProcessId);
  if (!missing.empty()) {
    fail<InitializationError>(
        "the environment gives this process only a part of its place in a job: {} set, {} missing; set all "
        "of them, or "
        "none for a job of one process",
        there, missing);
  }

  Place place;
  place.cluster = "explicit";
  place.why = there;
  place.coordinator_address = address->value;
  place.num_processes = number_in(*num_processes, 1);
  place.process_id = number_in(*process_id, 0);
  if (place.process_id >= place.num_processes) {
    fail<InitializationError>("{} is out of range: {} makes processes 0 to {}", process_id->to_string(),
                              num_processes->to_string(), place.num_processes - 1);
  }
  if (local_device_ids) {
    place.local_device_ids = numbers_in(*local_device_ids);
    place.why += ", " + local_device_ids->to_string();
  }
  return place;
}

}  // namespace lockstep::cluster
