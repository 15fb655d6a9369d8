// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/protocol/task.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::coordination {
namespace {
constexpr std::size_t kMostTasksNamed = 8;
}

const char* to_string(TaskState state) {
  switch (state) {
    case TaskState::kUninitialized:
      return "not registered";
    case TaskState::kDisconnected:
      return "disconnected";
    case TaskState::kConnected:
      return "connected";
    case TaskState::kError:
      return "failed";
  }
  return "unknown";
}

std::string describe_failure(const std::string& name, FailureKind kind, const std::string& how) {
  const auto verb = [kind] {
    switch (kind) {
      case FailureKind::kDied:
        return "died";
      case FailureKind::kEndedWithError:
        return "ended with an error";
      case FailureKind::kLeftEarly:
        return "left the job early";
      case FailureKind::kDiverged:
        return "diverged";
      case FailureKind::kMissing:
        return "did not come in time";
      case FailureKind::kStalled:
        return "holds up the job";
    }
    return "failed";
  };
  return fmt::format("{} {}: {}", name, verb(), how);
}

std::string name_process(int task, const Whereabouts& where) {
  return fmt::format("process {}{}", task, where.to_string());
}

std::string name_processes(const std::vector<int>& tasks, const std::function<Whereabouts(int)>& where) {
  if (tasks.size() == 1) return name_process(tasks.front(), where(tasks.front()));
  const std::size_t named = std::min(tasks.size(), kMostTasksNamed);
  std::string text = "processes";
  for (std::size_t i = 0; i < named; ++i)
    text += fmt::format("{} {}{}", i == 0 ? "" : ",", tasks[i], where(tasks[i]).to_string());
  if (named < tasks.size()) text += fmt::format(" and {} more", tasks.size() - named);
  return text;
}

std::string name_processes(const std::vector<int>& tasks, int num_tasks) {
  if (tasks.empty()) return "none";
  if (tasks.size() == 1) return fmt::format("process {} of {}", tasks.front(), num_tasks);
  std::size_t named = std::min(tasks.size(), kMostTasksNamed);
  std::string text = "processes ";
  for (std::size_t i = 0; i < named; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", tasks[i]);
  if (named < tasks.size()) text += fmt::format(" and {} more", tasks.size() - named);
  return text + fmt::format(" of {}", num_tasks);
}

}  // namespace lockstep::coordination
