// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/options.h"
#include "lockstep/cluster/place.h"
#include "lockstep/cluster/system.h"
#include "lockstep/runtime/compile_cache.h"
#include "lockstep/runtime/initialize.h"

namespace lockstep::runtime {

/// Options that help to find errors and cost time (docs/debugging.md).
struct DebugSettings {
  bool log_compiles = false;
  bool nans = false, infs = false;  ///< throw if a result contains one
  bool disable_jit = false;

  bool checks_results() const { return nans || infs; }
};

/// The settings of `initialize()`, merged from arguments, environment and defaults.
struct Settings {
  cluster::Place place;

  /// If the job's processes are the ranks of an MPI communicator, what `meet_by_mpi` needs to complete the
  /// place.
  std::optional<MpiCommunicator> mpi;
  std::string platform{options::kPlatform.otherwise};  ///< Or "cpu", "cuda", "tpu".

  /// The described devices, "v5e:4x4", for which a plan is made. Empty: the devices of this machine are used.
  std::string topology;
  int num_cpu_devices = options::kNumCpuDevices.otherwise;
  std::optional<int> threads;  ///< NPROC: of XLA's pool; nullopt: as many as there are CPUs
  std::chrono::seconds initialization_timeout{options::kInitializationTimeout.otherwise};
  std::chrono::seconds heartbeat_timeout{options::kHeartbeatTimeout.otherwise};
  std::chrono::seconds shutdown_timeout{options::kShutdownTimeout.otherwise};
  double stall_warning = options::kStallWarning.otherwise;  ///< in seconds
  std::optional<std::chrono::seconds> stall_timeout;        ///< nullopt: a stall does not end the job
  std::string network;  ///< for data between hosts; LOCKSTEP_NETWORK, "tcp" or "ucx"
  int data_connections =
      options::kDataConnections
          .otherwise;  ///< of tcp, to each device of another host; LOCKSTEP_DATA_CONNECTIONS
  int kept_blocks_mib = options::kKeptBlocksMib.otherwise;
  int unexpected_messages_mib = options::kUnexpectedMessagesMib.otherwise;
  std::string interface;  ///< the network interface for connections to other hosts; empty: any
  bool reproducible_sums = false;
  bool data_tls = false;  ///< what goes to other hosts is encrypted

  CompileCacheOptions compile_cache;
  std::int64_t max_compiled_programs = options::kMaxCompiledPrograms.otherwise;
  DebugSettings debug;

  /// The address at which this process listens if it runs the coordinator; empty: it does not run it.
  std::string coordinator_bind_address;
  bool bind_address_given = false;  ///< the user gave it; it was not derived from coordinator_address
};

/// Arguments override LOCKSTEP_… variables, which override the detected cluster type. Throws
/// InitializationError for invalid settings.
Settings resolve(const InitializeOptions& options, const Environment& environment,
                 const cluster::System& system = cluster::System::real());

/// The devices of this process among the `count` devices of the plugin: those of local_device_ids; one, by
/// the process's number on its host, if each process of a host uses one of the devices that all of them see
/// (`one_each`, as for GPUs); otherwise all. Throws InitializationError if such a device does not exist.
std::vector<int> chosen_devices(const cluster::Place& place, bool one_each, int count);

/// The information that a process has after joining.
struct Joined {
  bool holds_coordinator = false;
  int local_devices = 0, global_devices = 0;
  std::vector<std::string> hosts;  ///< the hosts of all processes, each once
};

/// The line that process 0 logs when the processes have met: its place and why, the coordinator, devices,
/// hosts.
std::string banner(const Settings& settings, const Joined& joined);

}  // namespace lockstep::runtime
