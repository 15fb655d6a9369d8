#pragma once

#include "lockstep/watch/layout.h"

namespace lockstep::watch {

/// The variable by which a launcher tells a process the descriptor of its recorder's memory.
inline constexpr char kDescriptorVariable[] = "LOCKSTEP_RECORDER_FD";

/// A descriptor of fresh memory of a recorder, closed by exec; -1 where there is none to be had. The caller
/// closes it.
int create_memory();

/// Maps what `create_memory` gave, here or in another process; null where the descriptor is no such memory.
Memory* map_memory(int descriptor);

/// Memory of this process alone, or null.
Memory* map_private_memory();

void unmap_memory(Memory* memory);

}  // namespace lockstep::watch
