// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/protocol/membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "coordination.pb.h"
#include "job.pb.h"
#include "lockstep/coordination/protocol/pending.h"

namespace lockstep::coordination {
namespace {

constexpr std::chrono::milliseconds kPatience(2000);
constexpr std::size_t kMostNamed = 8;

/// JAX's service has no call for this, but reports the state of each task.
std::string watch_membership(Service& service) {
  std::uint64_t incarnation = 0;
  for (int i = 0; i < 2; ++i) {
    jax::WatchTasksRequest request;
    request.mutable_incarnations()->set_service_incarnation(incarnation);
    request.set_version_number(-1);
    const auto answer = ask(service, kPatience, request);
    if (!answer)
      return "somebody listens there, but does not answer; check the port, and whether the coordinator hangs";
    if (answer->status.ok()) {
      std::vector<TaskInfo> tasks;
      for (const jax::TaskInfo& task : answer->value.task_state())
        tasks.push_back({task.task_id(), static_cast<TaskState>(task.state()), task.incarnation()});
      std::ranges::sort(tasks, {}, &TaskInfo::task);
      return membership_of(tasks);
    }
    // A call with a wrong incarnation returns the right one.
    if (!answer->status.right_service_incarnation) {
      return fmt::format("somebody listens there, but is not a coordinator ({}); check the port",
                         answer->status.message);
    }
    incarnation = *answer->status.right_service_incarnation;
  }
  return "not all processes have joined";
}

}  // namespace

std::string membership_of(const std::vector<TaskInfo>& tasks) {
  std::vector<int> missing;
  std::string came;
  std::size_t named = 0;
  for (const TaskInfo& task : tasks) {
    if (task.state == TaskState::kUninitialized && task.incarnation == 0) {
      missing.push_back(task.task);
    } else if (named++ < kMostNamed) {
      came += fmt::format("{}{}", named == 1 ? "" : ", ", task.task);
      if (!task.where.host.empty()) came += fmt::format(" (host {})", task.where.host);
    }
  }
  if (named > kMostNamed) came += fmt::format(" and {} more", named - kMostNamed);
  int size = static_cast<int>(tasks.size());
  return fmt::format("{} of {} processes have joined: {}; missing: {}", named, size,
                     named == 0 ? "none" : came, name_processes(missing, size));
}

std::string ask_membership(Service& service) {
  DescribeRequest request;
  request.set_with_membership(true);
  const auto answer = ask(service, kPatience, request);
  if (answer && answer->status.ok()) return answer->value.membership();
  return watch_membership(service);
}

}  // namespace lockstep::coordination
