// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "lockstep/base/limits.h"

namespace lockstep {

/// An option of `initialize()`: the one place of its names, default, range and description. The library and
/// the tool read it by this definition, and scripts/check_docs.py makes the table of docs/clusters.md.
template <class T>
struct Option {
  std::string_view argument = {};  ///< the field of InitializeOptions; empty: only the variable
  std::string_view variable;       ///< LOCKSTEP_NAME
  std::string_view jax = {};       ///< JAX's variable, if it has another name than JAX_NAME
  T otherwise = {};                ///< the default; there is none if it is outside of the range
  T least = std::numeric_limits<T>::lowest();
  T most = std::numeric_limits<T>::max();
  std::string_view value = {};  ///< the word for the value in `--help`
  std::string_view help;
  std::string_view page = {};  ///< the page of docs/ that describes it
};

/// The options, in the order of the table. Times are in seconds.
namespace options {

using Text = Option<std::string_view>;

inline constexpr int kMostSeconds = 100'000'000;

inline constexpr Text kCoordinatorAddress{.argument = "coordinator_address",
                                          .variable = "LOCKSTEP_COORDINATOR_ADDRESS",
                                          .help = "The address of the coordinator, such as node1:8476"};
inline constexpr Option<int> kCoordinatorPort{
    .variable = "LOCKSTEP_COORDINATOR_PORT",
    .least = 1,
    .most = 65535,
    .help = "The port of the coordinator, if the launcher provides only its host"};
inline constexpr Option<int> kNumProcesses{.argument = "num_processes",
                                           .variable = "LOCKSTEP_NUM_PROCESSES",
                                           .least = 1,
                                           .most = kMostProcesses,
                                           .help = "The number of processes of the job"};
inline constexpr Option<int> kProcessId{.argument = "process_id",
                                        .variable = "LOCKSTEP_PROCESS_ID",
                                        .least = 0,
                                        .most = kMostProcesses - 1,
                                        .help = "The number of this process; the first one is 0"};
inline constexpr Text kLocalDeviceIds{.argument = "local_device_ids",
                                      .variable = "LOCKSTEP_LOCAL_DEVICE_IDS",
                                      .help = "The local devices that this process uses, such as 0 or 0,2"};
inline constexpr Text kPlatform{
    .argument = "platform",
    .variable = "LOCKSTEP_PLATFORM",
    .jax = "JAX_PLATFORMS",
    .otherwise = "auto",
    .help = "The type of devices: cpu, cuda, tpu, or auto (a TPU or GPU if there is one, otherwise the CPU)",
    .page = "cuda.md"};
inline constexpr Text kTopology{.argument = "topology",
                                .variable = "LOCKSTEP_TOPOLOGY",
                                .help = "Compile for these devices without having them, such as v5e:4x4",
                                .page = "plan.md"};
inline constexpr Option<int> kNumCpuDevices{.argument = "num_cpu_devices",
                                            .variable = "LOCKSTEP_NUM_CPU_DEVICES",
                                            .otherwise = 1,
                                            .least = 1,
                                            .most = 1024,
                                            .value = "D",
                                            .help = "The number of CPU devices of each process"};
inline constexpr Option<int> kThreads{
    .variable = "NPROC",
    .jax = "NPROC",
    .least = 1,
    .most = 8192,
    .help = "The number of threads for computations on the CPU. Default: one for each core"};
inline constexpr Text kClusterDetectionMethod{
    .argument = "cluster_detection_method",
    .variable = "LOCKSTEP_CLUSTER",
    .jax = "JAX_CLUSTER_DETECTION_METHOD",
    .help = "Detect only this cluster type; none: detect no cluster"};
inline constexpr Option<int> kInitializationTimeout{.argument = "initialization_timeout",
                                                    .variable = "LOCKSTEP_INITIALIZATION_TIMEOUT",
                                                    .otherwise = 300,
                                                    .least = 1,
                                                    .most = kMostSeconds,
                                                    .value = "SECONDS",
                                                    .help = "How long initialize() waits for all processes"};
inline constexpr Option<int> kHeartbeatTimeout{
    .argument = "heartbeat_timeout",
    .variable = "LOCKSTEP_HEARTBEAT_TIMEOUT",
    .otherwise = 100,
    .least = 1,
    .most = kMostSeconds,
    .value = "SECONDS",
    .help = "A process or host that sends nothing for this time is considered dead",
    .page = "failure.md"};
inline constexpr Option<int> kShutdownTimeout{.argument = "shutdown_timeout",
                                              .variable = "LOCKSTEP_SHUTDOWN_TIMEOUT",
                                              .otherwise = 300,
                                              .least = 1,
                                              .most = kMostSeconds,
                                              .value = "SECONDS",
                                              .help = "How long shutdown() waits for the other processes"};
inline constexpr Option<double> kStallWarning{
    .argument = "stall_warning",
    .variable = "LOCKSTEP_STALL_WARNING",
    .otherwise = 10,
    .least = 0.1,
    .most = kMostSeconds,
    .value = "SECONDS",
    .help =
        "Report which process waits for which if they wait for this time, and for 20 times the usual "
        "duration of the launch",
    .page = "hangs.md"};
inline constexpr Option<int> kStallTimeout{
    .argument = "stall_timeout",
    .variable = "LOCKSTEP_STALL_TIMEOUT",
    .least = 1,
    .most = kMostSeconds,
    .value = "SECONDS",
    .help = "End the job with an error if processes wait this long for another one. Default: never",
    .page = "hangs.md"};
inline constexpr Text kOnPeerFailure{
    .argument = "on_peer_failure",
    .variable = "LOCKSTEP_ON_PEER_FAILURE",
    .otherwise = "throw",
    .help = "What this process does if another one fails: throw (an exception) or exit",
    .page = "failure.md"};
inline constexpr Text kCoordinatorBindAddress{
    .argument = "coordinator_bind_address",
    .variable = "LOCKSTEP_COORDINATOR_BIND_ADDRESS",
    .help =
        "The address at which process 0 listens. Default: the port of the coordinator on all interfaces, or "
        "without a secret only on the interface of its address"};
inline constexpr Text kInterface{
    .argument = "interface",
    .variable = "LOCKSTEP_INTERFACE",
    .value = "NAME",
    .help = "The network interface for connections to other hosts, such as eth1"};
inline constexpr Text kNetwork{.variable = "LOCKSTEP_NETWORK",
                               .help = "The network for arrays between hosts: tcp or ucx",
                               .page = "transport.md"};
inline constexpr Option<int> kDataConnections{
    .variable = "LOCKSTEP_DATA_CONNECTIONS",
    .otherwise = 1,
    .least = 1,
    .most = 16,
    .help = "The number of TCP connections for arrays to each device of another host",
    .page = "transport.md"};
inline constexpr Option<bool> kDataTls{.argument = "data_tls",
                                       .variable = "LOCKSTEP_DATA_TLS",
                                       .help =
                                           "Encrypt what processes send to other hosts, by TLS with the "
                                           "job's certificates, or else with a key made of its secret",
                                       .page = "transport.md#encryption"};
inline constexpr Text kCompilationCacheDir{.argument = "compilation_cache_dir",
                                           .variable = "LOCKSTEP_COMPILATION_CACHE_DIR",
                                           .help = "The folder for compiled programs",
                                           .page = "compile-cache.md"};
inline constexpr Option<double> kPersistentCacheMinCompileTimeSecs{
    .argument = "persistent_cache_min_compile_time_secs",
    .variable = "LOCKSTEP_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS",
    .least = 0,
    .value = "SECONDS",
    .help = "Programs that compile in less time are not cached",
    .page = "compile-cache.md"};
inline constexpr Option<std::int64_t> kPersistentCacheMinEntrySizeBytes{
    .argument = "persistent_cache_min_entry_size_bytes",
    .variable = "LOCKSTEP_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES",
    .least = -1,
    .help = "Programs with fewer bytes are not cached",
    .page = "compile-cache.md"};
inline constexpr Option<std::int64_t> kCompilationCacheMaxSize{
    .argument = "compilation_cache_max_size",
    .variable = "LOCKSTEP_COMPILATION_CACHE_MAX_SIZE",
    .otherwise = -1,
    .least = -1,
    .help = "The maximal size of the cache in bytes; -1: no limit",
    .page = "compile-cache.md"};
inline constexpr Option<std::int64_t> kMaxCompiledPrograms{
    .argument = "max_compiled_programs",
    .variable = "LOCKSTEP_MAX_COMPILED_PROGRAMS",
    .otherwise = 2000,
    .least = 1,
    .help = "The maximal number of compiled programs in memory",
    .page = "guide.md#jit-grad-vmap-pmap"};
inline constexpr Option<bool> kReproducibleSums{
    .argument = "reproducible_sums",
    .variable = "LOCKSTEP_REPRODUCIBLE_SUMS",
    .help = "Sums do not depend on how the devices are distributed over processes",
    .page = "transport.md#reproducible-sums"};
inline constexpr Option<int> kKeptBlocksMib{
    .argument = "kept_blocks_mib",
    .variable = "LOCKSTEP_KEPT_BLOCKS_MIB",
    .otherwise = 256,
    .least = 0,
    .help =
        "On CPUs, how many MiB of freed large arrays and temporaries stay with the process for the next ones",
    .page = "slow.md#5-does-the-kernel-clear-memory"};
inline constexpr Option<int> kPinnedMemoryMib{
    .argument = "pinned_memory_mib",
    .variable = "LOCKSTEP_PINNED_MEMORY_MIB",
    .otherwise = 2048,
    .least = 0,
    .help = "On GPUs, the host memory in MiB through which large arrays are copied at the bus's speed",
    .page = "cuda.md#copies-between-host-and-gpu"};
inline constexpr Option<int> kUnexpectedMessagesMib{
    .argument = "unexpected_messages_mib",
    .variable = "LOCKSTEP_UNEXPECTED_MESSAGES_MIB",
    .otherwise = 16,
    .least = 1,
    .help = "The memory in MiB for data that arrive before the device has started the operation",
    .page = "transport.md#a-receiver-that-is-late"};
inline constexpr Option<bool> kLogCompiles{.argument = "log_compiles",
                                           .variable = "LOCKSTEP_LOG_COMPILES",
                                           .help = "Log a line for each compilation",
                                           .page = "debugging.md"};
inline constexpr Option<bool> kDebugNans{.argument = "debug_nans",
                                         .variable = "LOCKSTEP_DEBUG_NANS",
                                         .help = "Throw where a result contains a NaN",
                                         .page = "debugging.md"};
inline constexpr Option<bool> kDebugInfs{.argument = "debug_infs",
                                         .variable = "LOCKSTEP_DEBUG_INFS",
                                         .help = "Throw where a result contains an infinity",
                                         .page = "debugging.md"};
inline constexpr Option<bool> kDisableJit{.argument = "disable_jit",
                                          .variable = "LOCKSTEP_DISABLE_JIT",
                                          .help = "Run functions of jit operation by operation",
                                          .page = "debugging.md"};

}  // namespace options
}  // namespace lockstep
