// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/watch/report.h"

namespace lockstep::watch {

// The state of a process in /proc on Linux, which can be read without stopping the process and without a
// permission to trace it.

struct ThreadState {
  int tid = 0;
  int own_tid = 0;   ///< in its own pid namespace, such as a container's
  std::string name;  ///< at most 15 bytes, as `shown` makes them

  /// R: runs, or waits for a core. S: sleeps. D: sleeps and cannot be interrupted, mostly for a disk. T:
  /// stopped by a signal. t: stopped by a tracer. Z: has ended.
  char state = '?';

  /// The kernel's function in which it sleeps. Empty if it runs or the kernel does not report it.
  std::string wchan;

  /// The number of its current system call. nullopt if it runs, and if the kernel does not report it: it does
  /// so only for processes that may trace this one. SYS_restart_syscall: a call with a time limit, which
  /// began before the thread was last stopped.
  std::optional<long> syscall;

  std::uint64_t cpu_ticks = 0;  ///< in the program and in the kernel; see seconds_of_ticks
};

struct ProcessState {
  bool exists = false;  ///< also true after it has ended, until its parent has read its status: state Z
  char state = '?';     ///< of its main thread
  std::string name;
  int own_pid = 0;  ///< in its own pid namespace
  int parent = 0;
  int tracer = 0;                    ///< the process that traces it, such as a debugger; 0: none
  unsigned user = 0;                 ///< its effective user
  std::uint64_t start_ticks = 0;     ///< since the host's start; a pid may be reused, but not with the same
                                     ///< value of this
  std::uint64_t cpu_ticks = 0;       ///< of all threads, including those that have ended
  std::uint64_t rss_bytes = 0;       ///< resident memory
  std::vector<ThreadState> threads;  ///< by tid; the main thread's tid is the pid
};

/// Never throws for what the process does: if it does not exist, or ends meanwhile, `exists` is false, and a
/// thread that ends meanwhile is left out. Takes about 30 microseconds for each thread.
ProcessState read_process_state(int pid);
/// The state of this process, even where /proc shows another pid namespace than its own.
ProcessState read_own_state();

/// The pid namespace of this process; 0 if the system does not tell it.
std::uint64_t own_pid_namespace();

/// The pid in /proc of the process that has the pid `own_pid` in `pid_namespace` (0: unknown), which may be a
/// container's: `root` or a descendant of it. 0 if there is none, or /proc does not show it. Reads a file for
/// each process of the host if the namespace is not this process's.
int find_process(int root, int own_pid, std::uint64_t pid_namespace);

/// "futex"; "system call 999" for an unknown one.
std::string syscall_name(long number);

/// "running", "waiting in futex", "stopped", "waiting for a disk or driver in read", "ended".
std::string describe(const ThreadState& thread);

/// The evidence about a thread, if it blocks others, of the process with this pid in its own pid namespace.
Evidence evidence_of(const ThreadState& thread, int own_pid, double cpu_share);

double seconds_of_ticks(std::uint64_t ticks);

}  // namespace lockstep::watch
