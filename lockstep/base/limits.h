// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace lockstep {

/// What the system says of an error number and, if it may come from a limit, that limit with its value: "Too
/// many open files (ulimit -n: 64)". Of this process on this host.
std::string describe_error(int error);

/// The second part of it: " (ulimit -n: 64)"; empty if there is no such limit.
std::string limit_behind(int error);

/// Starts `count` threads that do nothing, and ends them. Throws Error if they cannot be started, with the
/// limit and `what`, such as "the coordinator": for libraries that hang or abort if they are refused a
/// thread.
void require_threads(int count, const std::string& what);

/// Throws Error, with the limit and `what`, if less than `megabytes` of address space can be had, as under
/// `ulimit -v`.
void require_address_space(std::size_t megabytes, const std::string& what);

}  // namespace lockstep
