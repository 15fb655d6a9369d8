#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/process_host.h"
#include "cli/stacks/merge.h"
#include "cli/stacks/print.h"

namespace lockstep::cli {

/// The stacks of all processes of a job that somebody wants.
struct StacksRequest {
  std::chrono::milliseconds limit{3000};  ///< For each process.
  bool all = false;
  PrintOptions print;

  /// Hears the text, once; `complete` where the stacks of all processes could be taken.
  std::function<void(bool complete, const std::string& text)> done;
};

/// Gathers the stacks of a running job's processes from all hosts, one request at a time. Nothing blocks.
/// Used by one thread.
class JobStacks {
 public:
  /// `processes`: those that run. Throws Error where there are none, or stacks are being taken already. The
  /// caller then asks the hosts.
  void begin(StacksRequest request, std::set<int> processes);

  /// As HostListener::stacks_taken.
  void take(int process, ProcessStacks stacks);

  /// When `work` has to be called.
  std::optional<Steady::time_point> next_work() const { return until_; }
  void work();

  /// The job has ended: what has come counts.
  void finish();

 private:
  StacksRequest request_;
  std::set<int> awaited_;
  std::vector<NumberedStacks> taken_;
  std::optional<Steady::time_point> until_;  ///< None: nothing is asked.
};

}  // namespace lockstep::cli
