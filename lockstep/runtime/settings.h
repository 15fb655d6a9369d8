#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/kept.h"
#include "lockstep/cluster/place.h"
#include "lockstep/cluster/system.h"
#include "lockstep/runtime/compile_cache.h"
#include "lockstep/runtime/initialize.h"

namespace lockstep::runtime {

/// What helps to find an error and costs time (docs/debugging.md).
struct DebugSettings {
  bool log_compiles = false;
  bool nans = false, infs = false;  ///< throw for results that hold one
  bool disable_jit = false;

  bool checks_results() const { return nans || infs; }
};

/// The settings of `initialize()` with arguments, environment and defaults merged.
struct Settings {
  cluster::Place place;
  std::string platform = "auto";  ///< Or "cpu", "cuda", "tpu".

  /// The devices that are described, "v5e:4x4", and not used: a plan is made. Empty: those that are here.
  std::string topology;
  int num_cpu_devices = 1;
  std::chrono::seconds initialization_timeout{300}, heartbeat_timeout{100}, shutdown_timeout{300};
  double stall_warning = 10;                          ///< Seconds.
  std::optional<std::chrono::seconds> stall_timeout;  ///< None: a stall does not end the job.
  std::string interface;  ///< The network interface to reach other hosts by; empty: any.

  CompileCacheOptions compile_cache;
  std::int64_t max_compiled_programs = kDefaultMaxKept;
  DebugSettings debug;

  /// Where this process listens if it is the one to hold the coordinator; empty: it is not.
  std::string coordinator_bind_address;
  bool bind_address_given = false;  ///< The user gave it, and did not leave it to coordinator_address.
};

/// Arguments win over LOCKSTEP_… variables, which win over what the cluster type found says. Throws
/// InitializationError for what cannot be.
Settings resolve(const InitializeOptions& options, const Environment& environment,
                 const cluster::System& system = cluster::System::real());

/// Which of the `count` devices that the plugin shows are this process's: those of local_device_ids; one, by
/// the process's number on its host, where the processes of a host have one each of those that all of them
/// see
/// (`one_each`, as GPUs); otherwise all. Throws InitializationError where there is no such device.
std::vector<int> chosen_devices(const cluster::Place& place, bool one_each, int count);

/// What a process knows once it has joined.
struct Joined {
  bool holds_coordinator = false;
  int local_devices = 0, global_devices = 0;
  std::vector<std::string> hosts;  ///< Of all processes, each once.
};

/// The line that process 0 logs when the job has met: its place and why, the coordinator, devices, hosts.
std::string banner(const Settings& settings, const Joined& joined);

}  // namespace lockstep::runtime
