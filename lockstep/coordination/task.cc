#include "lockstep/coordination/task.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::coordination {
namespace {
constexpr std::size_t kMostNamed = 8;
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
  const char* verb = kind == FailureKind::kDied             ? "died"
                     : kind == FailureKind::kEndedWithError ? "ended with an error"
                                                            : "left the job early";
  return fmt::format("{} {}: {}", name, verb, how);
}

std::string name_process(int task, const Whereabouts& where) {
  return fmt::format("process {}{}", task, where.to_string());
}

std::string name_processes(const std::vector<int>& tasks, int num_tasks) {
  if (tasks.empty()) return "none";
  if (tasks.size() == 1) return fmt::format("process {} of {}", tasks.front(), num_tasks);
  std::size_t named = std::min(tasks.size(), kMostNamed);
  std::string text = "processes ";
  for (std::size_t i = 0; i < named; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", tasks[i]);
  if (named < tasks.size()) text += fmt::format(" and {} more", tasks.size() - named);
  return text + fmt::format(" of {}", num_tasks);
}

}  // namespace lockstep::coordination
