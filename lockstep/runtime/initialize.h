#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/runtime/peer_failure.h"

namespace lockstep {

/// One of this process's devices, or several, by their numbers: 0, or {0, 2}.
class DeviceIds {
 public:
  DeviceIds(int id) : ids_{id} {}
  DeviceIds(std::initializer_list<int> ids) : ids_(ids) {}
  DeviceIds(std::vector<int> ids) : ids_(std::move(ids)) {}
  const std::vector<int>& ids() const { return ids_; }

 private:
  std::vector<int> ids_;
};

/// The arguments of `initialize()`. What is not given here is taken from the variable named beside it (or
/// the same with JAX_ in place of LOCKSTEP_), then from what the environment's own launcher says, then from
/// the default. docs/clusters.md tells of each launcher.
struct InitializeOptions {
  std::optional<std::string> coordinator_address;  ///< LOCKSTEP_COORDINATOR_ADDRESS, "host:port"
  std::optional<int> num_processes;                ///< LOCKSTEP_NUM_PROCESSES
  std::optional<int> process_id;                   ///< LOCKSTEP_PROCESS_ID, from 0

  /// Which of this process's devices to use; LOCKSTEP_LOCAL_DEVICE_IDS, "0,2". If not given: all; but one GPU
  /// for each process where a launcher counts the processes of a host.
  std::optional<DeviceIds> local_device_ids;

  /// "cpu", "cuda", "tpu", or "auto": the TPU or GPU where one is seen and its plugin is there, otherwise
  /// CPU; LOCKSTEP_PLATFORM, or JAX_PLATFORMS, of whose list the first counts ("gpu" is cuda). Auto, if not
  /// given.
  std::optional<std::string> platform;

  /// Devices that need not be there: "v5e:4x4" or "2*v5e:4x4" (slices of TPUs), "h100:16x8" (hosts and GPUs
  /// of each; a100, h200, b200 too), "cpu:64x4". This process then stands for the first of that job's,
  /// whatever else is given: it compiles its computations for them, computes nothing, and ends with
  /// DescribedError where it reads an element (docs/plan.md). LOCKSTEP_TOPOLOGY, which `lockstep plan` sets;
  /// none, if not given.
  std::optional<std::string> topology;

  /// How many devices the CPU is divided into; LOCKSTEP_NUM_CPU_DEVICES, 1.
  std::optional<int> num_cpu_devices;

  /// Ask this cluster type only ("slurm", "ompi", ...; docs/clusters.md lists them), or, with "none", ask
  /// nobody; LOCKSTEP_CLUSTER. Any, if not given.
  std::optional<std::string> cluster_detection_method;

  /// How long to wait until all processes have come; LOCKSTEP_INITIALIZATION_TIMEOUT in seconds, 300.
  std::optional<std::chrono::seconds> initialization_timeout;

  /// How long a process may be silent before it is taken for dead; LOCKSTEP_HEARTBEAT_TIMEOUT in seconds,
  /// 100.
  std::optional<std::chrono::seconds> heartbeat_timeout;

  /// How long `shutdown()` waits for the others; LOCKSTEP_SHUTDOWN_TIMEOUT in seconds, 300.
  std::optional<std::chrono::seconds> shutdown_timeout;

  /// After how many seconds of waiting for a process that does not come there is a word on who waits for
  /// whom, and at which line; at least 20 times what the launch usually takes. LOCKSTEP_STALL_WARNING, 10.
  /// Under `lockstep run` the launcher says it, and has an option of this name.
  std::optional<double> stall_warning;

  /// After how long such a stall ends the job, with the process that holds it up as the cause;
  /// LOCKSTEP_STALL_TIMEOUT in seconds, or the option of `lockstep run`. If not given: never.
  std::optional<std::chrono::seconds> stall_timeout;

  /// What to do when another process has failed: OnPeerFailure::kThrow (the default), OnPeerFailure::kExit,
  /// or a function to call; LOCKSTEP_ON_PEER_FAILURE, "throw" or "exit".
  std::optional<PeerFailurePolicy> on_peer_failure;

  /// Where process 0 listens if it holds the coordinator; LOCKSTEP_COORDINATOR_BIND_ADDRESS. If not given:
  /// the port of coordinator_address on `interface`, or on all interfaces.
  std::optional<std::string> coordinator_bind_address;

  /// The network interface to reach other hosts by, where a host has several; LOCKSTEP_INTERFACE, "eth1".
  std::optional<std::string> interface;

  /// The folder that compiled programs are kept in, for the next start (docs/compile-cache.md); it is made
  /// where it is missing. LOCKSTEP_COMPILATION_CACHE_DIR; none, if not given or empty.
  std::optional<std::string> compilation_cache_dir;

  /// What compiled in less time is not kept; LOCKSTEP_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS, 0.
  std::optional<double> persistent_cache_min_compile_time_secs;

  /// What takes fewer bytes is not kept; LOCKSTEP_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES, 0.
  std::optional<std::int64_t> persistent_cache_min_entry_size_bytes;

  /// How many bytes may be kept, what was used longest ago going first; -1: any number.
  /// LOCKSTEP_COMPILATION_CACHE_MAX_SIZE, -1.
  std::optional<std::int64_t> compilation_cache_max_size;

  /// How many compiled programs are kept in memory at most, of each of three kinds: calls of functions of jit
  /// and pmap, operations outside of them, and the compiler's executables, which both share. Those go that
  /// were used longest ago, and are compiled anew where they are needed again.
  /// LOCKSTEP_MAX_COMPILED_PROGRAMS, 2000.
  std::optional<std::int64_t> max_compiled_programs;

  /// A line of the log for each compilation: of what, why, and how long it took; LOCKSTEP_LOG_COMPILES, off.
  /// This and the next three are in docs/debugging.md. Their variables say 1, true, yes or on, or the
  /// opposite.
  std::optional<bool> log_compiles;

  /// A computation whose results hold a NaN throws FloatingPointError, which names the operation and line
  /// that made the first one; LOCKSTEP_DEBUG_NANS, off. Slow.
  std::optional<bool> debug_nans;

  /// The same for infinities; LOCKSTEP_DEBUG_INFS, off.
  std::optional<bool> debug_infs;

  /// Functions of jit run operation by operation, as if jit were not there; LOCKSTEP_DISABLE_JIT, off. Slow.
  std::optional<bool> disable_jit;
};

/// Makes this process part of its job: meets the other processes through the coordinator, opens the local
/// devices and learns of everybody's. Blocks until all processes have come. With no arguments and nothing in
/// the environment the job is this process alone.
///
/// To be called once, before anything uses a device. Throws InitializationError if it was called before, or a
/// device was used (naming the place of the first use), if arguments or environment are incomplete, if the
/// coordinator cannot be reached or processes are missing at the deadline, and PjrtError if the plugin cannot
/// be used.
void initialize(const InitializeOptions& options = {},
                std::source_location where = std::source_location::current());

/// Leaves the job: waits until all processes have called it, at most the shutdown timeout. Called by itself
/// when the program ends with status 0. Throws TimeoutError, naming who is missing, and PeerFailure if a
/// process has died, also where that was thrown before. A second call does nothing. Arrays stay readable;
/// nothing can be computed across processes afterwards.
void shutdown();

/// Whether `initialize()` has succeeded and `shutdown()` was not called since.
bool is_initialized();

}  // namespace lockstep
