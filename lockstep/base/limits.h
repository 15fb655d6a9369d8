// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace lockstep {

/// The most processes of a job.
inline constexpr int kMostProcesses = 262'144;

/// The most processes that `lockstep run` starts.
inline constexpr int kMostOfALauncher = 65'536;

/// The system's text for an error number, with the limit of this process that may be the cause: "Too many
/// open files (ulimit -n: 64)".
std::string describe_error(int error);

/// Only the limit: " (ulimit -n: 64)"; empty if none is set that may be the cause.
std::string limit_behind(int error);

/// Starts `count` threads that do nothing, and ends them; 20 threads take about 2 ms. Throws Error if they
/// cannot be started, with the limit and `what` needs them, such as "the coordinator". Call it before
/// libraries that hang or abort when they cannot start a thread.
void require_threads(int count, const std::string& what);

/// Throws Error, with the limit and `what` needs it, if less than `megabytes` of address space is free, as
/// under `ulimit -v`.
void require_address_space(std::size_t megabytes, const std::string& what);

}  // namespace lockstep
