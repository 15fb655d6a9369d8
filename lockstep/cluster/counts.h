// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/base/environment.h"

namespace lockstep::cluster {

// The largest counts of a job, for initialize() and the tool; lockstep::kMostProcesses is another. A larger
// count is a mistake, which would take the host's memory or threads before it fails.

inline constexpr int kMostOfALauncher = 65'536;  ///< processes that `lockstep run` starts
inline constexpr int kMostCpuDevices = 1'024;    ///< of a process; each has a thread
inline constexpr int kMostThreads = 8'192;       ///< of XLA's pool in a process

/// LOCKSTEP_NUM_CPU_DEVICES or JAX_NUM_CPU_DEVICES, and NPROC; nullopt where a variable is not set. Throw
/// InitializationError for what is no number from 1 to the limit.
std::optional<int> cpu_devices_given(const Environment& environment);
std::optional<int> threads_given(const Environment& environment);

}  // namespace lockstep::cluster
