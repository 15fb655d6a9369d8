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

/// A function in the merged stacks of many processes, and what it had called there.
struct StackNode {
  enum class Kind {
    kFunction,
    kNameless,  ///< Functions in a row of one library, or of generated code, whose names are not known.
    kEnd,       ///< The end of a stack: what the thread does there.
    kUnknown,   ///< The start of a stack of which the outer functions could not be told: why.
  } kind = Kind::kFunction;
  std::string text;    ///< The function's name; of kEnd and kUnknown the words.
  std::string module;  ///< The library's name. Empty: the program itself; where kNameless, generated code.
  std::string place;   ///< "file.cc:12"; empty where it is not known.

  int fewest = 1, most = 1;  ///< Of kNameless: how many functions it stands for in a stack.
  std::uint64_t least_ticks = 0, most_ticks = 0;  ///< Of kEnd: the CPU time of a thread.

  ThreadCounts threads;            ///< Those that are there.
  std::vector<StackNode> callees;  ///< Those of the fewest processes first.
};

struct NumberedStacks {
  int process = 0;  ///< Its number in the job.
  ProcessStacks stacks;
};

/// The stacks of many processes as one: what is the same stands once.
struct MergedStacks {
  int num_processes = 0;
  StackNode main;                            ///< The main threads; `callees` are the outermost functions.
  StackNode others;                          ///< The other threads, less the idle ones.
  std::map<std::string, ThreadCounts> idle;  ///< Threads that wait for work, by whose they are.
  std::vector<NumberedStacks> refused;       ///< Those of which no stacks could be taken.
  std::vector<int> ended;                    ///< Those that have ended.
};

/// Merges them. Without `all`, threads that wait for work are only counted, and what the standard library has
/// between a function and the one that it calls is left out.
MergedStacks merge_stacks(std::span<const NumberedStacks> processes, bool all);

/// Whose the thread is, where it waits for work as those of XLA's and gRPC's pools and some of Lockstep's own
/// do: "XLA", "gRPC", "Lockstep". Empty for every other thread.
std::string idle_owner(const ThreadStack& thread);

}  // namespace lockstep::cli
