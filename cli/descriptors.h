#pragma once

#include <sys/resource.h>

namespace lockstep::cli {

/// Lets this process have as many descriptors as it may, up to the hard limit. Call it before threads and
/// children are started.
void raise_descriptor_limit();

/// The limit of descriptors as this process was started with it, which its children are to have.
rlimit inherited_descriptor_limit();

/// How many descriptors this process may have now.
long most_descriptors();

/// What it holds besides those of its processes and hosts: standard streams, the coordinator, the logs that
/// are open.
inline constexpr long kOwnDescriptors = 64;

}  // namespace lockstep::cli
