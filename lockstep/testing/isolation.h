// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace lockstep::testing {

/// Gives this process, and those that it starts from now on, their own network, /dev/shm and folder for
/// temporary files, so that tests running at the same time do not affect each other; the network has only a
/// loopback. Call it before the process has started threads. Returns "" or the reason why it failed: it needs
/// the permission to make namespaces. A second call does nothing.
std::string isolate();

/// After `isolate()`: makes /dev/shm a file system of this many bytes, and fills it to the last.
void fill_shared_memory(std::size_t bytes);

}  // namespace lockstep::testing
