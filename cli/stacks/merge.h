// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cli/stacks/stacks.h"

namespace lockstep::cli {

/// Threads of a job: how many of each process, by its number.
using ThreadCounts = std::map<int, int>;

/// A function in the merged stacks of many processes, and the functions that it called.
struct StackNode {
  enum class Kind {
    kFunction,
    kNameless,  ///< consecutive functions of one library, or of generated code, whose names are unknown
    kEnd,       ///< the end of a stack: the state of the thread
    kUnknown,   ///< the start of a stack whose outer functions could not be determined: the reason
  } kind = Kind::kFunction;
  std::string text;    ///< the function's name; for kEnd and kUnknown a text
  std::string module;  ///< the library's name; empty: the program itself, or for kNameless generated code
  std::string place;   ///< "file.cc:12"; empty if unknown

  int fewest = 1, most = 1;  ///< for kNameless: the number of functions that it represents in a stack
  std::uint64_t least_ticks = 0, most_ticks = 0;  ///< for kEnd: the CPU time of a thread

  ThreadCounts threads;            ///< the threads with this function
  std::vector<StackNode> callees;  ///< those with the fewest processes first
};

struct NumberedStacks {
  int process = 0;  ///< its number in the job
  ProcessStacks stacks;
};

/// The stacks of many processes as one tree, in which common parts appear once.
struct MergedStacks {
  int num_processes = 0;
  StackNode main;                            ///< the main threads; `callees` are the outermost functions
  StackNode others;                          ///< the other threads, without idle ones
  std::map<std::string, ThreadCounts> idle;  ///< threads that wait for work, by owner
  std::vector<NumberedStacks> refused;       ///< processes whose stacks could not be taken
  std::vector<int> ended;                    ///< processes that have ended
};

/// Merges the stacks. Without `all`, threads that wait for work are only counted, and functions of the
/// standard library between a function and the one that it calls are left out.
MergedStacks merge_stacks(std::span<const NumberedStacks> processes, bool all);

/// The owner of a thread that waits for work in a pool: "XLA", "gRPC", "Lockstep". Empty for other threads.
std::string idle_owner(const ThreadStack& thread);

}  // namespace lockstep::cli
