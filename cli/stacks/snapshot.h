// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cli {

/// A copy of the data of a thread that a debugger needs for its stack, so that the thread need not wait for
/// the analysis.
struct ThreadSnapshot {
  int tid = 0;

  /// False if the thread ended, or could not be stopped in time, like one that waits for a disk. The rest is
  /// empty then.
  bool taken = false;

  /// The system call in which it waited, which continues afterwards. nullopt if it ran.
  std::optional<long> syscall;

  std::vector<std::uint64_t> registers;  ///< by their DWARF numbers, from 0
  std::uint64_t pc = 0;
  std::uint64_t stack_start = 0;  ///< the address of the first byte of `stack`
  std::vector<std::byte> stack;   ///< from just below the stack pointer to the stack's end, or at most a MiB
};

struct MemoryRange {
  std::uint64_t start = 0, end = 0;
  bool readable = false, executable = false;
  std::string file;  ///< its path, or a name in brackets that the kernel gives; empty where there is none
};

struct Snapshot {
  /// The errno of ptrace if no thread could be examined: EPERM if it is forbidden, ESRCH if the process has
  /// ended.
  int error = 0;
  std::vector<ThreadSnapshot> threads;
  std::vector<MemoryRange> memory;      ///< of the process, by address
  std::chrono::microseconds paused{0};  ///< how long threads of the process were stopped
};

/// The range that holds an address, or nullptr.
const MemoryRange* range_at(const std::vector<MemoryRange>& ranges, std::uint64_t address);

/// Copies the registers and stacks of all threads of a process, which are stopped together for a few
/// milliseconds. A stopped process stays stopped. `limit` is how long to wait for threads that do not stop;
/// the others continue before.
///
/// A separate thread traces the process with ptrace. The kernel releases everything that a thread traces when
/// that thread ends for any reason, so nothing stays stopped. The caller's process may be the parent of the
/// traced one and wait for its children in other threads at the same time: this function never calls wait(2),
/// so it does not take their exit statuses. But `waitpid` also reports stops of traced children to these
/// threads, whatever its options are. A status only means the end of a child if WIFEXITED or WIFSIGNALED is
/// true.
Snapshot take_snapshot(int pid, std::chrono::milliseconds limit);

}  // namespace lockstep::cli
