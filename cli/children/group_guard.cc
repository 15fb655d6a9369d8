// SPDX-License-Identifier: Apache-2.0
#include "cli/children/group_guard.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

namespace lockstep::cli {
namespace {

constexpr std::size_t kMostGroups = 65536;

// Only what is safe in a signal handler may be called here, for the process may have had threads.
// `at_the_end`: the arguments of this program to become then, or null.
[[noreturn]] void guard(int pipe, char* const* at_the_end) {
  static std::array<pid_t, kMostGroups> groups;
  setpgid(0, 0);
  prctl(PR_SET_NAME, "lockstep-guard");
  dup2(pipe, 0);
  close_range(1, ~0U, 0);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  std::size_t count = 0;
  pid_t group = 0;
  while (true) {
    const ssize_t got = read(0, &group, sizeof(group));
    if (got == 0) break;
    if (got != sizeof(group)) continue;
    if (group > 0) {
      if (count < kMostGroups) groups[count++] = group;
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (groups[i] == -group) groups[i] = groups[--count];
    }
  }
  for (std::size_t i = 0; i < count; ++i) kill(-groups[i], SIGKILL);
  if (at_the_end != nullptr) execv("/proc/self/exe", at_the_end);
  _exit(0);
}

bool in_group(const std::filesystem::path& process, pid_t group) {
  std::ifstream file(process / "stat");
  std::string stat;
  std::getline(file, stat);
  const std::size_t name_end = stat.rfind(") ");  // the program's name may hold anything
  if (name_end == std::string::npos) return false;
  std::istringstream words(stat.substr(name_end + 2));
  std::string state;
  pid_t parent = 0, own_group = 0;
  return words >> state >> parent >> own_group && own_group == group && state != "Z";
}

bool has_variable(const std::filesystem::path& process, const std::string& variable) {
  std::ifstream file(process / "environ");
  for (std::string one; std::getline(file, one, '\0');) {
    if (one == variable) return true;
  }
  return false;
}

}  // namespace

GroupGuard::GroupGuard(const std::string& job_here) {
  std::string words[] = {"lockstep", "end-group", std::to_string(getpgrp()), job_here};
  char* const arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  guard_ = _Fork();
  const int error = errno;
  if (guard_ == 0) {
    close(ends[1]);
    guard(ends[0], job_here.empty() ? nullptr : arguments);
  }
  close(ends[0]);
  pipe_ = ends[1];
  if (guard_ < 0) {
    close(pipe_);
    throw std::system_error(error, std::generic_category(), "fork");
  }
}

GroupGuard::~GroupGuard() {
  close(pipe_);
  while (waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void GroupGuard::tell(pid_t group) {
  [[maybe_unused]] const ssize_t written = write(pipe_, &group, sizeof(group));
}

int end_group_members(pid_t group, const std::string& job_id) {
  // One killed may have started another meanwhile; one that is stuck in the kernel stays.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (bool found = true; found && std::chrono::steady_clock::now() < deadline;) {
    found = false;
    std::error_code ignored;
    for (std::filesystem::directory_iterator entry("/proc", ignored), end; entry != end;
         entry.increment(ignored)) {
      const pid_t pid = std::atoi(entry->path().filename().c_str());
      if (pid <= 0 || !in_group(entry->path(), group)) continue;
      if (!has_variable(entry->path(), "LOCKSTEP_JOB_ID=" + job_id)) continue;
      found |= kill(pid, SIGKILL) == 0;
    }
    if (found) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return 0;
}

}  // namespace lockstep::cli
