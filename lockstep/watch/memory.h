// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/watch/layout.h"

namespace lockstep::watch {

/// The variable in which a launcher passes a process the descriptor of its recorder's memory.
inline constexpr char kDescriptorVariable[] = "LOCKSTEP_RECORDER_FD";

/// A descriptor of new memory for a recorder, which exec closes; -1 with errno if there is none. The caller
/// closes it.
int create_memory();

/// Maps memory made by `create_memory`, here or in another process; null if the descriptor is not such
/// memory.
Memory* map_memory(int descriptor);

/// Memory for this process alone, or null.
Memory* map_private_memory();

void unmap_memory(Memory* memory);

}  // namespace lockstep::watch
