#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::cli {

/// What a debugger would read of a thread to tell its stack, copied, so that the thread need not wait while
/// it is told.
struct ThreadSnapshot {
  int tid = 0;

  /// False where the thread ended, or could not be stopped in time, as one that waits for a disk. The rest is
  /// empty then.
  bool taken = false;

  /// The system call that it waited in, which goes on afterwards. None where it ran.
  std::optional<long> syscall;

  std::vector<std::uint64_t> registers;  ///< By their numbers in DWARF, from 0.
  std::uint64_t pc = 0;
  std::uint64_t stack_start = 0;  ///< The address of the first byte of `stack`.
  std::vector<std::byte> stack;   ///< From just below the stack pointer to the stack's end, or a MiB of it.
};

struct MemoryRange {
  std::uint64_t start = 0, end = 0;
  bool readable = false, executable = false;
};

struct Snapshot {
  /// The errno of ptrace where no thread could be looked at: EPERM where it is forbidden, ESRCH where the
  /// process has ended.
  int error = 0;
  std::vector<ThreadSnapshot> threads;
  std::vector<MemoryRange> memory;      ///< Of the process, by address.
  std::chrono::microseconds paused{0};  ///< How long threads of the process stood still.
};

/// Copies the registers and stacks of all threads of a process, which stand still together meanwhile, for a
/// few milliseconds. A process that is stopped stays so. `limit` is how long it may wait for threads that do
/// not stop; the others run on before.
///
/// It traces the process with ptrace from a thread of its own. The kernel gives free what a thread traces
/// when that thread ends, by whatever cause, so nothing is left stopped. The caller's process may be the
/// parent of the traced one and wait for its children in other threads meanwhile, for nothing here waits for
/// a child (wait(2)), and so no child's end is taken from them. What they have to know: `waitpid` also gives
/// them stops of traced children, whatever its options. A status is of an end only where WIFEXITED or
/// WIFSIGNALED.
Snapshot take_snapshot(int pid, std::chrono::milliseconds limit);

}  // namespace lockstep::cli
