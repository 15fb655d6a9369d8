#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/watch/proc_state.h"

namespace lockstep::cli {

struct Frame {
  std::string function;  ///< Its short name (names.h); empty where there is no symbol for it.
  std::string module;    ///< The name of the program or library, without folders; empty for generated code.
  bool of_program = false;  ///< It is in the program itself, not in a library.
  std::string file;         ///< As the compiler was given it; empty where there is no debug information.
  int line = 0;
};

struct ThreadStack {
  /// From just before the stack was taken; whether it ran or waited, and in which system call, is of the same
  /// moment.
  watch::ThreadState state;
  std::vector<Frame> frames;  ///< The innermost first; functions that the compiler inlined among them.

  /// Why there are no frames, or not all of them; empty where the stack is whole.
  std::string missing;

  bool main = false;  ///< The thread that runs `main`.
};

struct ProcessStacks {
  int pid = 0;
  watch::ProcessState process;  ///< From just before. Where it does not exist, it has ended.

  /// Why no stacks could be taken, and what to do: a sentence. Empty where they were.
  std::string refused;

  std::vector<ThreadStack> threads;     ///< By tid; without frames where refused.
  std::chrono::microseconds paused{0};  ///< For so long threads of the process stood still.
};

struct StackOptions {
  /// For the whole process. What is not told by then has `missing`; what the system needs for one file may
  /// come on top.
  std::chrono::milliseconds limit = std::chrono::seconds(3);
  int most_frames = 200;  ///< Of a thread.
};

/// The stacks of all threads of a process of this host, taken from outside as take_snapshot (snapshot.h)
/// does: it may run, spin, wait or be stopped, and goes on as it was. Debug information is looked for in the
/// files themselves and in /usr/lib/debug. Any thread may call it, several at once, and also the parent of
/// the process, with what take_snapshot asks of its waits. Throws only where memory runs out.
ProcessStacks take_stacks(int pid, const StackOptions& options = {});

/// Takes those of several processes at the same time, in the order of `pids`.
std::vector<ProcessStacks> take_stacks(const std::vector<int>& pids, const StackOptions& options = {});

}  // namespace lockstep::cli
