// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/watch/proc_state.h"

namespace lockstep::cli {

struct Frame {
  std::string function;     ///< its short name (names.h); empty if it has no symbol
  std::string module;       ///< the name of the program or library, without folders; empty for generated code
  bool of_program = false;  ///< it is in the program itself, not in a library
  std::string file;         ///< as passed to the compiler; empty without debug information
  int line = 0;
};

struct ThreadStack {
  /// From just before the stack was taken; whether it ran or waited, and in which system call, is from the
  /// same moment.
  watch::ThreadState state;
  std::vector<Frame> frames;  ///< the innermost first, including inlined functions

  /// Why frames are missing; empty if the stack is complete.
  std::string missing;

  bool main = false;  ///< The thread that runs `main`.
};

struct ProcessStacks {
  int pid = 0;
  watch::ProcessState process;  ///< from just before; if it does not exist, it has ended

  /// Why no stacks could be taken, and what to do: a sentence. Empty if they were.
  std::string refused;

  std::vector<ThreadStack> threads;     ///< by tid; without frames if refused
  std::chrono::microseconds paused{0};  ///< how long threads of the process were stopped
};

struct StackOptions {
  /// For the whole process. Stacks that are not finished by then have `missing`; the time that the system
  /// needs for one file may be added.
  std::chrono::milliseconds limit = std::chrono::seconds(3);
  int most_frames = 200;  ///< of a thread
};

/// The stacks of all threads of a process of this host, taken from outside by take_snapshot (snapshot.h): it
/// may run, spin, wait or be stopped, and continues unchanged. Debug information is looked up in the files
/// themselves and in /usr/lib/debug. Thread-safe; the caller may also be the parent of the process, with the
/// restriction of take_snapshot on its waits. Only throws if memory runs out.
ProcessStacks take_stacks(int pid, const StackOptions& options = {});

/// Takes the stacks of several processes at the same time, in the order of `pids`.
std::vector<ProcessStacks> take_stacks(const std::vector<int>& pids, const StackOptions& options = {});

}  // namespace lockstep::cli
