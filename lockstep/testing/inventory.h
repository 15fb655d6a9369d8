#pragma once

#include <map>
#include <string>

namespace lockstep::testing {

/// What this process, and those that it started, hold of the system: to find what a test leaves behind.
/// Sockets, shared memory and temporary files are those of all processes that see the same, so call
/// `isolate()` first.
struct Inventory {
  /// Each thing by what it is ("process 4711 train", "listening on tcp 127.0.0.1:4000", "file /dev/shm/x"),
  /// with how often it is there.
  std::map<std::string, int> things;
  int descriptors = 0;  ///< Open in this process.
  int threads = 0;      ///< Of this process.

  /// Children of this process are counted, dead ones that nobody has waited for too; with `adopt_orphans()`,
  /// all descendants. Listening and bound sockets, files below /dev/shm, and files in the folder for
  /// temporary files.
  static Inventory now();
};

/// What there is in `after` and was not in `before`, one thing a line; empty where there is nothing.
/// Descriptors and threads of this process are not looked at.
std::string left_over(const Inventory& before, const Inventory& after);

/// From now on orphans among this process's descendants become its children, so that the inventory shows
/// them.
void adopt_orphans();

}  // namespace lockstep::testing
