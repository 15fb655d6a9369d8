// SPDX-License-Identifier: Apache-2.0
#include "cli/run/job_stacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/watch/report.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::seconds kForTheWay(5);  // to the agents and back, and for what the system reads

}  // namespace

void JobStacks::begin(StacksRequest request, std::set<int> processes) {
  if (until_) fail("the stacks of this job are already being taken; ask again in a few seconds");
  if (processes.empty()) fail("none of the job's processes is running");
  request_ = std::move(request);
  awaited_ = std::move(processes);
  taken_.clear();
  until_ = Steady::now() + request_.limit + kForTheWay;
}

void JobStacks::take(int process, ProcessStacks stacks) {
  if (!until_ || awaited_.erase(process) == 0) return;
  taken_.push_back({process, std::move(stacks)});
  if (awaited_.empty()) finish();
}

void JobStacks::work() {
  if (until_ && Steady::now() >= *until_) finish();
}

void JobStacks::finish() {
  if (!until_) return;
  until_.reset();
  std::ranges::sort(taken_, {}, &NumberedStacks::process);
  const MergedStacks merged = merge_stacks(taken_, request_.all);
  std::string text = print_stacks(merged, request_.print);
  if (!awaited_.empty()) {
    text += fmt::format("\nno answer of the hosts of processes {}\n",
                        watch::describe_processes({awaited_.begin(), awaited_.end()}));
  }
  request_.done(merged.refused.empty() && awaited_.empty(), text);
}

}  // namespace lockstep::cli
