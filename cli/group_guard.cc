#include "cli/group_guard.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

namespace lockstep::cli {
namespace {

constexpr std::size_t kMostGroups = 65536;

// Only what is safe in a signal handler may be called here, for the process may have had threads.
[[noreturn]] void guard(int pipe) {
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
  _exit(0);
}

}  // namespace

GroupGuard::GroupGuard() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  guard_ = _Fork();
  const int error = errno;
  if (guard_ == 0) {
    close(ends[1]);
    guard(ends[0]);
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

}  // namespace lockstep::cli
