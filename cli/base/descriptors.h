// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

#include <string>

namespace lockstep::cli {

/// Raises this process's limit of descriptors to the hard limit. Call it before threads and children are
/// started.
void raise_descriptor_limit();

/// The limit of descriptors with which this process was started, for its children.
rlimit inherited_descriptor_limit();

/// This process's current limit of descriptors.
long most_descriptors();

/// The message where so many processes need more descriptors than that limit.
std::string describe_too_few(long processes, long needed);

/// Descriptors for other purposes than processes and hosts: standard streams, the coordinator, open logs.
inline constexpr long kOwnDescriptors = 64;

}  // namespace lockstep::cli
