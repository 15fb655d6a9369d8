// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/settings.h"

#include <algorithm>
#include <map>

#include "lockstep/base/fail.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/detect.h"
#include "lockstep/cluster/options.h"
#include "lockstep/cluster/variables.h"
#include "lockstep/coordination/identity/host_port.h"
#include "lockstep/storage/url.h"

namespace lockstep::runtime {
namespace {

using cluster::find_value;
using cluster::value_of;

/// The environment with the arguments that determine the place as variables.
class WithArguments : public Environment {
 public:
  WithArguments(const InitializeOptions& options, const Environment& environment)
      : environment_(environment) {
    set(options::kCoordinatorAddress.variable, options.coordinator_address);
    set(options::kNumProcesses.variable, options.num_processes);
    set(options::kProcessId.variable, options.process_id);
  }

  std::optional<std::string> get(const std::string& name) const override {
    auto it = arguments_.find(name);
    return it == arguments_.end() ? environment_.get(name) : it->second;
  }

 private:
  void set(std::string_view variable, const auto& argument) {
    if (argument) arguments_[std::string(variable)] = fmt::to_string(*argument);
  }

  const Environment& environment_;
  std::map<std::string, std::string> arguments_;
};

/// "coordinator_address, process_id": those arguments for the place that are given, or those that are not.
std::string list_arguments(const InitializeOptions& options, bool given) {
  std::string list;
  auto note = [&](bool present, std::string_view argument) {
    if (present == given) list += (list.empty() ? "" : ", ") + std::string(argument);
  };
  note(options.coordinator_address.has_value(), "coordinator_address");
  note(options.num_processes.has_value(), "num_processes");
  note(options.process_id.has_value(), "process_id");
  return list;
}

/// The place if some of the arguments for it are given: they override the environment.
cluster::Place place_with(const InitializeOptions& options, const Environment& environment,
                          const std::string& forced, const cluster::System& system) {
  std::optional<cluster::Place> found;
  try {
    found = cluster::find_place(WithArguments(options, environment), forced, system);
  } catch (const InitializationError& error) {
    fail<InitializationError>("[initialize] with {} given as arguments: {}", list_arguments(options, true),
                              error.what());
  }
  if (found) return *found;
  if (options.coordinator_address || options.process_id || *options.num_processes > 1) {
    fail<InitializationError>(
        "[initialize] got {} but not {}, and nothing in the environment says the rest; give all three, or "
        "start the program with `lockstep run`",
        list_arguments(options, true), list_arguments(options, false));
  }
  return cluster::detect(environment, forced.empty() ? "none" : forced, system);
}

/// The place of a rank of MPI, but for what the ranks tell each other when they meet.
cluster::Place place_in_mpi(const InitializeOptions& options, const Environment& environment) {
  if (const std::string given = list_arguments(options, true); !given.empty()) {
    fail<InitializationError>("[initialize] got mpi and {}: the communicator says them, leave them out",
                              given);
  }
  cluster::Place place;
  place.cluster = "mpi";
  place.why = fmt::format("rank {} of {} of the communicator in mpi", options.mpi->rank, options.mpi->size);
  place.num_processes = options.mpi->size;
  place.process_id = options.mpi->rank;
  return cluster::with_identity(environment, place);
}

cluster::Place place_of(const InitializeOptions& options, const Environment& environment,
                        const cluster::System& system) {
  const std::string& forced = *options.cluster_detection_method;
  const std::string missing = list_arguments(options, false);
  cluster::Place place;
  if (options.mpi) {
    place = place_in_mpi(options, environment);
  } else if (missing.empty()) {
    place.cluster = "arguments";
    place.why = "arguments of initialize()";
    place.coordinator_address = *options.coordinator_address;
    place.num_processes = *options.num_processes;
    place.process_id = *options.process_id;
    place = cluster::with_identity(environment, place);
  } else if (list_arguments(options, true).empty()) {
    place = cluster::detect(environment, forced, system);
  } else {
    place = place_with(options, environment, forced, system);
  }
  if (auto sign = cluster::sign_of_others(environment);
      sign && options.num_processes == 1 && forced.empty()) {
    fail<InitializationError>(
        "[initialize] num_processes is 1, but {} says that a launcher has started several processes; leave "
        "the argument out to join them, or give cluster_detection_method \"none\" to run each as a job of "
        "its own",
        *sign);
  }
  if (options.local_device_ids) place.local_device_ids = options.local_device_ids->ids();
  return place;
}

std::string platform_of(const InitializeOptions& options, const Environment& environment) {
  std::string asked = options.platform.value_or(""), from = "platform is";
  if (!options.platform) {
    const auto found = cluster::find_variable(environment, options::kPlatform);
    if (!found) return std::string(options::kPlatform.otherwise);
    from = found->name + " is";
    asked = found->value;
  }
  const std::string first = asked.substr(0, asked.find(','));
  if (first == "gpu") return "cuda";
  for (const char* known : {"cpu", "cuda", "tpu", "auto"})
    if (first == known) return first;
  fail<InitializationError>("[initialize] {} '{}': expected cpu, cuda, tpu or auto", from, shown(asked));
}

/// The folder of compiled programs, as a path. Throws InitializationError for a URL that is none.
std::string cache_folder(const std::string& given) {
  try {
    return given.empty() ? "" : storage::local_path(given);
  } catch (const StorageError& error) {
    fail<InitializationError>("[initialize] compilation_cache_dir: {}", error.what());
  }
}

/// The options with those that are not given from the environment, or else by default.
InitializeOptions completed(InitializeOptions all, const Environment& environment) {
  internal::for_each_option(
      all, [&](auto& field, const auto& option) { field = value_of(environment, option, field); });
  all.platform = platform_of(all, environment);
  all.compilation_cache_dir = cache_folder(*all.compilation_cache_dir);
  return all;
}

/// The interface's first address. If it has none, throws an InitializationError that lists the interfaces.
std::string address_of(const std::string& interface, const cluster::System& system) {
  std::string others;
  for (const cluster::InterfaceAddress& one : system.interface_addresses()) {
    if (one.interface == interface) return one.address;
    others += fmt::format("{}{} ({})", others.empty() ? "" : ", ", one.interface, one.address);
  }
  fail<InitializationError>("[initialize] no network interface '{}' with an address is up; there are {}",
                            shown(interface), others.empty() ? "none" : others);
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host.starts_with("127.") || host == "::1";
}

}  // namespace

const MpiCommunicator* Settings::mpi() const {
  return options.mpi && place.num_processes > 1 ? &*options.mpi : nullptr;
}

CompileCacheOptions Settings::compile_cache() const {
  return {.folder = *options.compilation_cache_dir,
          .min_compile_time = std::chrono::duration<double>(*options.persistent_cache_min_compile_time_secs),
          .min_entry_size = *options.persistent_cache_min_entry_size_bytes,
          .max_size = *options.compilation_cache_max_size};
}

Settings resolve(const InitializeOptions& options, const Environment& environment,
                 const cluster::System& system) {
  Settings settings;
  settings.options = completed(options, environment);
  const InitializeOptions& all = settings.options;
  if (all.topology->empty()) {
    settings.place = place_of(all, environment, system);
  } else {
    // This process acts as the first one of the described job, wherever it runs.
    settings.place.cluster = "topology";
    settings.place.why = "described: " + *all.topology;
  }
  const cluster::Place& place = settings.place;
  if (place.num_processes < 1 || place.num_processes > kMostProcesses) {
    fail<InitializationError>("[initialize] num_processes is {}: expected 1 to {} ({})", place.num_processes,
                              kMostProcesses, place.why);
  }
  if (place.process_id < 0 || place.process_id >= place.num_processes) {
    fail<InitializationError>("[initialize] process_id is {}: with {} processes it must be 0 to {}",
                              place.process_id, place.num_processes, place.num_processes - 1);
  }
  settings.threads = find_value(environment, options::kThreads);
  // Under a launcher the variable is the launcher's: it knows more of its processes.
  if (all.stall_timeout || place.cluster != "launcher")
    settings.options.stall_timeout = find_value(environment, options::kStallTimeout, all.stall_timeout);
  settings.network = find_value(environment, options::kNetwork).value_or("");
  settings.data_connections = value_of(environment, options::kDataConnections);
  std::string interface_address;
  if (!all.interface->empty() && place.num_processes > 1)
    interface_address = address_of(*all.interface, system);

  if (settings.mpi() && place.process_id == 0)
    settings.coordinator_bind_address = *all.coordinator_bind_address;
  if (place.coordinator_address.empty()) return settings;
  const coordination::HostPort address = coordination::parse_address(place.coordinator_address);
  if (place.cluster == "launcher" || place.process_id != 0) return settings;
  settings.coordinator_bind_address = *all.coordinator_bind_address;
  settings.bind_address_given = !settings.coordinator_bind_address.empty();
  if (settings.bind_address_given) {
    coordination::parse_address(settings.coordinator_bind_address);
  } else {
    // A coordinator on loopback is for this host only; anything else listens on the interface that the user
    // chose, or on every one, as JAX's does.
    std::string host = interface_address.empty() ? "::" : interface_address;
    if (is_loopback(address.host)) host = address.host;
    settings.coordinator_bind_address = coordination::HostPort{host, address.port}.to_string();
  }
  return settings;
}

std::vector<int> chosen_devices(const cluster::Place& place, bool one_each, int count) {
  std::vector<int> all;
  for (int i = 0; i < count; ++i) all.push_back(i);
  auto refuse = [&](std::string_view what, int id) {
    fail<InitializationError>("[initialize] {} {}, but process {} of {} has {} (0 to {})", what, id,
                              place.process_id, place.num_processes, count, count - 1);
  };
  if (place.local_device_ids) {
    for (int id : *place.local_device_ids)
      if (id < 0 || id >= count) refuse("local_device_ids names device", id);
    return *place.local_device_ids;
  }
  if (!one_each || !place.local_process_id || count == 1) return all;
  if (*place.local_process_id >= count)
    refuse("each process uses one GPU and this is its host's process", *place.local_process_id);
  return {*place.local_process_id};
}

std::string banner(const Settings& settings, const Joined& joined) {
  const cluster::Place& place = settings.place;
  if (!settings.options.topology->empty()) {
    return fmt::format(
        "planning for {}, which is only described: {} devices of {} {}; programs are compiled, and nothing "
        "is computed",
        *settings.options.topology, joined.global_devices, place.num_processes,
        place.num_processes == 1 ? "process" : "processes");
  }
  // In a job of several processes each line of the log already contains the process.
  std::string text = place.num_processes == 1 ? "process 0 of 1, " : "";
  text += fmt::format("cluster {} ({})", place.cluster, place.why);
  if (!place.coordinator_address.empty()) {
    text += fmt::format(", coordinator {}{}", place.coordinator_address,
                        joined.holds_coordinator ? " (held by this process)" : "");
  }
  text += fmt::format(", {} of {} {} here", joined.local_devices, joined.global_devices,
                      joined.global_devices == 1 ? "device" : "devices");
  constexpr std::size_t kShown = 4;
  text += joined.hosts.size() == 1 ? ", on host " : fmt::format(", on {} hosts: ", joined.hosts.size());
  for (std::size_t i = 0; i < std::min(kShown, joined.hosts.size()); ++i)
    text += (i == 0 ? "" : ", ") + joined.hosts[i];
  if (joined.hosts.size() > kShown) text += ", ...";
  return text;
}

}  // namespace lockstep::runtime
