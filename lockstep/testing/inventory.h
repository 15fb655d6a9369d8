// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

namespace lockstep::testing {

/// System resources that this process and those that it started hold: to find what a test leaves behind.
/// Sockets, shared memory and temporary files of all processes that share them are counted, so call
/// `isolate()` first.
struct Inventory {
  /// Each resource by its description ("process 4711 train", "listening on tcp 127.0.0.1:4000", "file
  /// /dev/shm/x"), with its count.
  std::map<std::string, int> things;
  int descriptors = 0;  ///< open in this process
  int threads = 0;      ///< of this process

  /// Counts children of this process, also dead ones that were not waited for; with `adopt_orphans()`, all
  /// descendants. Also listening and bound sockets, files below /dev/shm, and files in the folder for
  /// temporary files.
  static Inventory now();
};

/// The resources in `after` that are not in `before`, one in each line; empty if there are none. Ignores
/// descriptors and threads of this process.
std::string left_over(const Inventory& before, const Inventory& after);

/// From now on orphans among this process's descendants become its children, so that the inventory shows
/// them.
void adopt_orphans();

}  // namespace lockstep::testing
