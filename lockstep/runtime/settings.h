// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// The settings of `initialize()`, merged from arguments, environment and defaults.
struct Settings {
  cluster::Place place;

  /// The fields of `for_each_option` have values, and so does `platform`: "auto", "cpu", "cuda" or "tpu".
  /// What is in `place` may be absent here.
  InitializeOptions options;

  std::optional<int> threads;  ///< NPROC: of XLA's pool; nullopt: as many as there are CPUs
  std::string network;         ///< for data between hosts; LOCKSTEP_NETWORK, "tcp" or "ucx"

  /// LOCKSTEP_DATA_CONNECTIONS: of tcp, to each device of another host.
  int data_connections = options::kDataConnections.otherwise;

  /// The address at which this process listens if it runs the coordinator; empty: it does not run it.
  std::string coordinator_bind_address;
  bool bind_address_given = false;  ///< the user gave it; it was not derived from coordinator_address

  /// If the job's processes are several ranks of an MPI communicator, what `meet_by_mpi` needs to complete
  /// the place; otherwise nullptr.
  const MpiCommunicator* mpi() const;

  CompileCacheOptions compile_cache() const;
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
