// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/durations.h"
#include "lockstep/base/options.h"
#include "lockstep/runtime/mpi_communicator.h"
#include "lockstep/runtime/peer_failure.h"

namespace lockstep {

/// Numbers of this process's devices: one or several, 0 or {0, 2}.
class DeviceIds {
 public:
  DeviceIds(int id) : ids_{id} {}
  DeviceIds(std::initializer_list<int> ids) : ids_(ids) {}
  DeviceIds(std::vector<int> ids) : ids_(std::move(ids)) {}
  const std::vector<int>& ids() const { return ids_; }

 private:
  std::vector<int> ids_;
};

/// The arguments of `initialize()`. For an option that is not set, the variable named beside it (or the same
/// with JAX_ instead of LOCKSTEP_) is used, then the information of the launcher, then the default.
/// docs/clusters.md describes each launcher.
struct InitializeOptions {
  std::optional<std::string> coordinator_address;  ///< LOCKSTEP_COORDINATOR_ADDRESS, "host:port"
  std::optional<int> num_processes;                ///< LOCKSTEP_NUM_PROCESSES
  std::optional<int> process_id;                   ///< LOCKSTEP_PROCESS_ID, from 0

  /// The ranks of this MPI communicator are the processes of the job, whatever the launcher and the variables
  /// say: `initialize({.mpi = comm})` (docs/mpi.md). All its ranks call `initialize()`. Needs
  /// <lockstep/mpi.h>. Not together with the three above. Default: none.
  std::optional<MpiCommunicator> mpi;

  /// Which of this process's devices to use; LOCKSTEP_LOCAL_DEVICE_IDS, "0,2". Default: all, but one GPU for
  /// each process if a launcher numbers the processes of a host.
  std::optional<DeviceIds> local_device_ids;

  /// "cpu", "cuda", "tpu", or "auto": TPU or GPU if one is detected and its plugin is installed, otherwise
  /// CPU. LOCKSTEP_PLATFORM, or JAX_PLATFORMS, of whose list the first entry counts ("gpu" is cuda). Default:
  /// auto.
  std::optional<std::string> platform;

  /// Described devices, which need not exist: "v5e:4x4" or "2*v5e:4x4" (slices of TPUs), "h100:16x8" (hosts ×
  /// GPUs of each; also a100, h200, b200), "cpu:64x4". The process acts as the first process of that job,
  /// whatever the other options are: it compiles its computations for these devices, computes nothing, and
  /// ends with DescribedError where it reads an element (docs/plan.md). LOCKSTEP_TOPOLOGY, which `lockstep
  /// plan` sets. Default: none.
  std::optional<std::string> topology;

  /// The number of devices into which the CPU is divided; LOCKSTEP_NUM_CPU_DEVICES, 1.
  std::optional<int> num_cpu_devices;

  /// Detect only this cluster type ("slurm", "ompi", ...; docs/clusters.md lists them), or, with "none", no
  /// type; LOCKSTEP_CLUSTER. Default: all types.
  std::optional<std::string> cluster_detection_method;

  /// How long to wait until all processes have arrived; LOCKSTEP_INITIALIZATION_TIMEOUT in seconds, 300.
  std::optional<std::chrono::seconds> initialization_timeout;

  /// A process that is silent for longer counts as dead; LOCKSTEP_HEARTBEAT_TIMEOUT in seconds, 100.
  std::optional<std::chrono::seconds> heartbeat_timeout;

  /// How long `shutdown()` waits for the other processes; LOCKSTEP_SHUTDOWN_TIMEOUT in seconds, 300.
  std::optional<std::chrono::seconds> shutdown_timeout;

  /// If processes wait longer than this for a process that does not arrive, a message says which process
  /// waits for which, and at which line. At least 20 times the usual duration of the launch. In seconds;
  /// LOCKSTEP_STALL_WARNING, 10. Under `lockstep run` the launcher prints the message, and has an option of
  /// this name.
  std::optional<double> stall_warning;

  /// Such a stall ends the job after this time, with the process that blocks the others as the cause;
  /// LOCKSTEP_STALL_TIMEOUT in seconds, or the option of `lockstep run`. Default: never.
  std::optional<std::chrono::seconds> stall_timeout;

  /// The reaction to the failure of another process: OnPeerFailure::kThrow (the default),
  /// OnPeerFailure::kExit, or a function to call; LOCKSTEP_ON_PEER_FAILURE, "throw" or "exit".
  std::optional<PeerFailurePolicy> on_peer_failure;

  /// The address at which process 0 listens if it runs the coordinator; LOCKSTEP_COORDINATOR_BIND_ADDRESS.
  /// Default: the port of coordinator_address on `interface`, or on all interfaces.
  std::optional<std::string> coordinator_bind_address;

  /// The network interface for connections to other hosts, if a host has several; LOCKSTEP_INTERFACE, "eth1".
  std::optional<std::string> interface;

  /// The folder in which compiled programs are kept for the next start (docs/compile-cache.md); it is created
  /// if it does not exist. LOCKSTEP_COMPILATION_CACHE_DIR. Default, or empty: none.
  std::optional<std::string> compilation_cache_dir;

  /// Programs that compile in less time are not kept; LOCKSTEP_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS, 0.
  std::optional<double> persistent_cache_min_compile_time_secs;

  /// Programs with fewer bytes are not kept; LOCKSTEP_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES, 0.
  std::optional<std::int64_t> persistent_cache_min_entry_size_bytes;

  /// The maximal number of bytes in the folder; the least recently used programs are removed. -1: no limit.
  /// LOCKSTEP_COMPILATION_CACHE_MAX_SIZE, -1.
  std::optional<std::int64_t> compilation_cache_max_size;

  /// The maximal number of compiled programs in memory, for each of three kinds: calls of functions of jit
  /// and pmap, operations outside of them, and the compiler's executables, which both share. The least
  /// recently used ones are dropped, and compiled again when they are needed. LOCKSTEP_MAX_COMPILED_PROGRAMS,
  /// 2000.
  std::optional<std::int64_t> max_compiled_programs;

  /// Sums and products of floats have the same bits however the devices are distributed over processes and
  /// hosts (docs/transport.md, "Reproducible sums"); LOCKSTEP_REPRODUCIBLE_SUMS, off. All processes of a job
  /// must have the same. Throws InitializationError on platforms whose compiler makes the collectives.
  std::optional<bool> reproducible_sums;

  /// Everything that processes of different hosts send to each other is encrypted: TLS 1.3, with the job's
  /// certificates, or else with a key made of its secret (docs/transport.md, "Encryption").
  /// LOCKSTEP_DATA_TLS, or `lockstep run --encrypt`; off. All processes of a job must have the same. Throws
  /// InitializationError in a job on several hosts that has neither certificates nor a secret, or whose
  /// platform's compiler makes the collectives.
  std::optional<bool> data_tls;

  /// On CPUs, so many MiB of large arrays and temporaries that are freed stay with this process for the next
  /// ones, which the kernel then need not clear (docs/slow.md). 0: none. LOCKSTEP_KEPT_BLOCKS_MIB, 256.
  std::optional<int> kept_blocks_mib;

  /// On GPUs, the host memory in MiB through which arrays of 1 MiB and more are copied at the bus's speed,
  /// pinned when it is needed and then kept (docs/cuda.md). 0: none. LOCKSTEP_PINNED_MEMORY_MIB, 2048.
  std::optional<int> pinned_memory_mib;

  /// Data that other hosts send to a device before it has come to the operation hold at most so many MiB of
  /// this process's memory, and then wait in the sender (docs/transport.md, "A receiver that is late");
  /// LOCKSTEP_UNEXPECTED_MESSAGES_MIB, 16.
  std::optional<int> unexpected_messages_mib;

  /// Log a line for each compilation, with its function, its reason and its time; LOCKSTEP_LOG_COMPILES, off.
  /// docs/debugging.md describes this option and the next three. Their variables are 1, true, yes or on, or
  /// the opposites.
  std::optional<bool> log_compiles;

  /// If the results of a computation contain a NaN, it throws a FloatingPointError that names the operation
  /// and line that made the first one; LOCKSTEP_DEBUG_NANS, off. Slow.
  std::optional<bool> debug_nans;

  /// The same for infinities; LOCKSTEP_DEBUG_INFS, off.
  std::optional<bool> debug_infs;

  /// Run functions of jit operation by operation, without jit; LOCKSTEP_DISABLE_JIT, off. Slow.
  std::optional<bool> disable_jit;
};

namespace internal {

/// Calls `visit(field, option)` for each field that is the argument, or else the option's variable, or else
/// its default. The other fields have rules of their own (runtime/settings.cc).
template <class Visit>
void for_each_option(InitializeOptions& all, const Visit& visit) {
  visit(all.topology, options::kTopology);
  visit(all.num_cpu_devices, options::kNumCpuDevices);
  visit(all.cluster_detection_method, options::kClusterDetectionMethod);
  visit(all.initialization_timeout, options::kInitializationTimeout);
  visit(all.heartbeat_timeout, options::kHeartbeatTimeout);
  visit(all.shutdown_timeout, options::kShutdownTimeout);
  visit(all.stall_warning, options::kStallWarning);
  visit(all.coordinator_bind_address, options::kCoordinatorBindAddress);
  visit(all.interface, options::kInterface);
  visit(all.compilation_cache_dir, options::kCompilationCacheDir);
  visit(all.persistent_cache_min_compile_time_secs, options::kPersistentCacheMinCompileTimeSecs);
  visit(all.persistent_cache_min_entry_size_bytes, options::kPersistentCacheMinEntrySizeBytes);
  visit(all.compilation_cache_max_size, options::kCompilationCacheMaxSize);
  visit(all.max_compiled_programs, options::kMaxCompiledPrograms);
  visit(all.reproducible_sums, options::kReproducibleSums);
  visit(all.data_tls, options::kDataTls);
  visit(all.kept_blocks_mib, options::kKeptBlocksMib);
  visit(all.pinned_memory_mib, options::kPinnedMemoryMib);
  visit(all.unexpected_messages_mib, options::kUnexpectedMessagesMib);
  visit(all.log_compiles, options::kLogCompiles);
  visit(all.debug_nans, options::kDebugNans);
  visit(all.debug_infs, options::kDebugInfs);
  visit(all.disable_jit, options::kDisableJit);
}

}  // namespace internal

/// Makes this process part of its job: connects to the coordinator, meets the other processes, opens the
/// local devices and exchanges the topology. Blocks until all processes have arrived. Without arguments and
/// variables, the job is this process alone.
///
/// Call it before anything uses a device. Throws InitializationError if it was called before, if a device was
/// used before (naming the line of the first use), if arguments or environment are incomplete, and if the
/// coordinator cannot be reached or processes are missing at the deadline; throws PjrtError if the plugin
/// cannot be used.
///
/// After `shutdown()` it may be called again, while no other thread uses Lockstep: this process then joins
/// another job, with a place, members and devices of its own. Arrays, shardings, compiled functions,
/// checkpointers and loaders of the job before can be used no more: they throw Error. Functions of jit and
/// pmap are compiled anew. If the call fails, the process stays as it was after `shutdown()`, but computes
/// nothing until another call succeeds. Not after a failure of the job before, and not on GPUs and TPUs,
/// whose plugin has the devices as long as the process lives: InitializationError.
void initialize(const InitializeOptions& options = {},
                std::source_location where = std::source_location::current());

/// Leaves the job: blocks until all processes have called it, but at most for the shutdown timeout. Called
/// automatically when the program ends with status 0. Throws TimeoutError, naming the missing processes, and
/// PeerFailure if a process has died, also if that was thrown before. A second call does nothing. Afterwards
/// arrays can still be read, but nothing can be computed across processes, until `initialize()` is called
/// again.
void shutdown();

/// Whether `initialize()` has succeeded and `shutdown()` has not been called since.
bool is_initialized();

}  // namespace lockstep
