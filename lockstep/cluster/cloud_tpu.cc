// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/tpu_chips.h"

#include <algorithm>
#include <sstream>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {
namespace {

constexpr int kPort = 8482;  // JAX's

/// PCI ids of TPU chips, by JAX's list; Google's network cards have the same vendor.
constexpr const char* kVendor = "0x1ae0";
constexpr const char* kChips[] = {"0x0027", "0x0056", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076"};

std::string unquoted(const std::string& text) { return std::string(trimmed(text, " \t\r\n'\"")); }

std::vector<std::string> parts(const std::string& text, char separator) {
  std::vector<std::string> found;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) found.push_back(unquoted(part));
  return found;
}

/// A job of several slices: their number, the number of this one, and the address of the first process.
struct Slices {
  std::optional<Variable> count, index, coordinator;
};

/// Joins a slice's workers to the place; worker 0 of slice 0 is process 0.
Place place_in(const Environment& environment, const std::string& cluster, const std::string& why,
               const std::vector<std::string>& workers, const Variable& worker, const Slices& slices) {
  Place place;
  place.cluster = cluster;
  place.why = why;
  const int worker_id = number_in(worker, 0), per_slice = static_cast<int>(workers.size());
  if (worker_id >= per_slice) {
    fail<InitializationError>("{} is out of range: {} workers are named ({})", worker.to_string(), per_slice,
                              why);
  }
  const int count = slices.count ? number_in(*slices.count, 1) : 1;
  const int index = slices.index ? number_in(*slices.index, 0) : 0;
  if (count > 1 && !(slices.index && slices.coordinator)) {
    fail<InitializationError>(
        "{} says that there are several slices, but {} missing ({})", slices.count->to_string(),
        slices.index         ? "MEGASCALE_COORDINATOR_ADDRESS is"
        : slices.coordinator ? "MEGASCALE_SLICE_ID is"
                             : "MEGASCALE_SLICE_ID and MEGASCALE_COORDINATOR_ADDRESS are",
        why);
  }
  if (slices.index && slices.count) check_range(*slices.index, *slices.count);
  place.num_processes = per_slice * count;
  place.process_id = worker_id + per_slice * index;
  std::string host = count > 1 ? slices.coordinator->value : workers.front();
  if (std::count(host.begin(), host.end(), ':') == 1) host = host.substr(0, host.find(':'));  // HOST:PORT
  place.coordinator_address = coordinator_given_or_at(environment, host, kPort);
  return place;
}

/// "KEY: 'value'" of each line.
std::optional<Variable> find_in(const std::string& lines, const std::string& key) {
  for (const std::string& line : parts(lines, '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || unquoted(line.substr(0, colon)) != key) continue;
    const std::string value = unquoted(line.substr(colon + 1));
    if (!value.empty()) return Variable{key, value};
  }
  return std::nullopt;
}

}  // namespace

int count_tpu_chips(const System& system) {
  const std::string devices = "/sys/bus/pci/devices/";
  int chips = 0;
  for (const std::string& device : system.list_folder(devices)) {
    if (unquoted(system.read_file(devices + device + "/vendor").value_or("")) != kVendor) continue;
    const std::string chip = unquoted(system.read_file(devices + device + "/device").value_or(""));
    if (std::find(std::begin(kChips), std::end(kChips), chip) != std::end(kChips)) ++chips;
  }
  return chips;
}

std::optional<Place> gke_tpu_place(const Environment& environment, const System&) {
  Signs signs(environment);
  auto workers = signs.need({"TPU_WORKER_HOSTNAMES", "TPU_PROCESS_ADDRESSES"});
  if (auto processes = find_variable(environment, {"TPU_PROCESS_ADDRESSES"})) workers = processes;
  auto worker = signs.need({"TPU_WORKER_ID"});
  if (signs.there().empty()) return std::nullopt;
  Slices slices{signs.want({"MEGASCALE_NUM_SLICES"}), signs.want({"MEGASCALE_SLICE_ID"}),
                signs.want({"MEGASCALE_COORDINATOR_ADDRESS"})};
  signs.check_launcher("GKE", "request google.com/tpu for the container that runs the program");
  return place_in(environment, "gketpu", signs.there(), parts(workers->value, ','), *worker, slices);
}

std::optional<Place> gce_tpu_place(const Environment& environment, const System& system) {
  if (find_variable(environment, {"TPU_SKIP_MDS_QUERY"}) || count_tpu_chips(system) == 0) return std::nullopt;
  auto server = find_variable(environment, {"GCE_METADATA_IP", "GCE_METADATA_HOST"});
  auto attribute = [&](const std::string& name) {
    return system.metadata(server ? server->value : "metadata.google.internal",
                           "instance/attributes/" + name);
  };
  auto number = attribute("agent-worker-number");
  if (!number) return std::nullopt;  // not a TPU VM: chips that somebody passed on
  auto endpoints = attribute("worker-network-endpoints");
  if (!endpoints) {
    fail<InitializationError>(
        "the metadata server gives this process only a part of its place in a job: agent-worker-number={} "
        "set, worker-network-endpoints missing; set LOCKSTEP_COORDINATOR_ADDRESS, LOCKSTEP_NUM_PROCESSES and "
        "LOCKSTEP_PROCESS_ID, or LOCKSTEP_CLUSTER=none for a job of one process",
        unquoted(*number));
  }
  std::vector<std::string> workers;
  for (const std::string& endpoint : parts(unquoted(*endpoints), ',')) {
    const std::vector<std::string> fields = parts(endpoint, ':');  // HOST, or NAME:ID:ADDRESS
    if (fields.size() != 1 && fields.size() != 3) {
      fail<InitializationError>(
          "worker-network-endpoints of the metadata server has '{}': expected a host "
          "or name:id:address",
          endpoint);
    }
    workers.push_back(fields.back());
  }
  const std::string tpu_env = attribute("tpu-env").value_or("");
  auto find = [&](const std::string& key) {
    auto variable = find_variable(environment, {key});
    return variable ? variable : find_in(tpu_env, key);
  };
  Slices slices{find("MEGASCALE_NUM_SLICES"), find("MEGASCALE_SLICE_ID"),
                find("MEGASCALE_COORDINATOR_ADDRESS")};
  const Variable worker{"agent-worker-number", unquoted(*number)};
  return place_in(environment, "gcetpu",
                  fmt::format("metadata: {}, {} workers", worker.to_string(), workers.size()), workers,
                  worker, slices);
}

}  // namespace lockstep::cluster
