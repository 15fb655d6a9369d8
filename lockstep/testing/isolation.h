#pragma once

#include <cstddef>
#include <string>

namespace lockstep::testing {

/// Gives this process, and those that it starts from now on, a network, a /dev/shm and a folder for temporary
/// files of their own, so that other tests running at the same time are not seen and not disturbed: the
/// network has a loopback only. Call it before the process has started threads. Returns "" or why it cannot:
/// it needs the right to make namespaces. A second call does nothing.
std::string isolate();

/// After `isolate()`: makes /dev/shm a file system of this many bytes, and fills it to the last.
void fill_shared_memory(std::size_t bytes);

}  // namespace lockstep::testing
