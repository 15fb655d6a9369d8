#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/watch/report.h"

namespace lockstep::watch {

// What Linux tells of a process in /proc, without stopping it and without a permission to trace it.

struct ThreadState {
  int tid = 0;
  std::string name;  ///< At most 15 characters.

  /// R: runs, or waits for a core. S: sleeps. D: sleeps and cannot be interrupted, mostly for a disk. T:
  /// stopped by a signal. t: stopped by a tracer. Z: has ended.
  char state = '?';

  /// The function of the kernel in which it sleeps. Empty where it runs or the kernel does not say.
  std::string wchan;

  /// The number of the system call it is in. None where it runs, and where the kernel does not say: it says
  /// this only to those who may trace the process. SYS_restart_syscall: one with a time limit, which began
  /// before the thread was last stopped.
  std::optional<long> syscall;

  std::uint64_t cpu_ticks = 0;  ///< In the program and in the kernel; see seconds_of_ticks.
};

struct ProcessState {
  bool exists = false;  ///< Also while it has ended and its parent has not asked for its status: state Z.
  char state = '?';     ///< That of its main thread.
  std::string name;
  int parent = 0;
  int tracer = 0;                 ///< The process that traces it, such as a debugger; 0 for none.
  unsigned user = 0;              ///< Its effective user.
  std::uint64_t start_ticks = 0;  ///< Since the host's start. A pid may come again; a pid with this does not.
  std::uint64_t cpu_ticks = 0;    ///< Of all threads, of those that have ended, too.
  std::uint64_t rss_bytes = 0;    ///< Memory that it has in RAM.
  std::vector<ThreadState> threads;  ///< By tid; the main thread's is the pid.
};

/// Never throws for what the process does: one that is not there, or ends meanwhile, has `exists` false, and
/// a thread that ends meanwhile is left out. It takes some 30 microseconds a thread.
ProcessState read_process_state(int pid);

/// "futex"; "system call 999" for one that it does not know.
std::string syscall_name(long number);

/// "running", "waiting in futex", "stopped", "waiting for a disk or driver in read", "ended".
std::string describe(const ThreadState& thread);

/// What is said of the thread, one of process `pid`, where it holds up others.
Evidence evidence_of(const ThreadState& thread, int pid, double cpu_share);

double seconds_of_ticks(std::uint64_t ticks);

}  // namespace lockstep::watch
