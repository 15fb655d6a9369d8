// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/hosts/process_host.h"
#include "cli/stacks/merge.h"
#include "cli/stacks/print.h"

namespace lockstep::cli {

/// A request for the stacks of all processes of a job.
struct StacksRequest {
  std::chrono::milliseconds limit{3000};  ///< for each process
  bool all = false;
  PrintOptions print;

  /// Called once with the text; `complete` if the stacks of all processes could be taken.
  std::function<void(bool complete, const std::string& text)> done;
};

/// Collects the stacks of a running job's processes from all hosts, one request at a time. Nothing blocks.
/// Used by one thread.
class JobStacks {
 public:
  /// `processes` are the running ones. Throws Error if there are none, or if stacks are being taken already.
  /// The caller then asks the hosts.
  void begin(StacksRequest request, std::set<int> processes);

  /// As HostListener::stacks_taken.
  void take(int process, ProcessStacks stacks);

  /// When `work` must be called.
  std::optional<Steady::time_point> next_work() const { return until_; }
  void work();

  /// The job has ended: the stacks that have arrived are the result.
  void finish();

 private:
  StacksRequest request_;
  std::set<int> awaited_;
  std::vector<NumberedStacks> taken_;
  std::optional<Steady::time_point> until_;  ///< nullopt: no request is active
};

}  // namespace lockstep::cli
