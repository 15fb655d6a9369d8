// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "lockstep/base/fail.h"
#include "lockstep/storage/credential_sources.h"
#include "lockstep/storage/store.h"

extern char** environ;

namespace lockstep::storage {
namespace {

constexpr std::chrono::seconds kDeadline{60};
constexpr std::size_t kLargestOutput = 1 << 20;

struct Descriptor {
  int value = -1;
  ~Descriptor() { close_it(); }
  void close_it() {
    if (value >= 0) close(value);
    value = -1;
  }
};

/// A shell in a process group of its own, which ends with its scope.
struct Shell {
  pid_t pid = -1;
  int status = 0;
  ~Shell() {
    if (pid < 0) return;
    kill(-pid, SIGKILL);
    wait();
  }
  void wait() {
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    pid = -1;
  }
};

void start(Shell& shell, const std::string& command, int output, const std::string& source) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  const char* arguments[] = {"/bin/sh", "-c", command.c_str(), nullptr};
  const int error =
      posix_spawn(&shell.pid, "/bin/sh", &actions, &attributes, const_cast<char**>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    shell.pid = -1;
    fail<StorageError>("{}: cannot start its credential_process \"{}\": {}", source, command,
                       std::strerror(error));
  }
}

}  // namespace

Credentials credentials_of_process(const std::string& command, const std::string& source) {
  const std::string of_process = fmt::format("credential_process of {}", source);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    fail<StorageError>("{}: cannot make a pipe for its credential_process: {}", source, std::strerror(errno));
  Descriptor from{ends[0]}, to{ends[1]};
  Shell shell;
  start(shell, command, to.value, source);
  to.close_it();

  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  std::string output;
  char buffer[4096];
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd waiting{from.value, POLLIN, 0};
    const int ready = left.count() <= 0 ? 0 : poll(&waiting, 1, static_cast<int>(left.count()));
    if (ready == 0)
      fail<StorageError>("{}: \"{}\" has not ended after {} s", of_process, command, kDeadline.count());
    if (ready < 0 && errno == EINTR) continue;
    const ssize_t bytes = ready < 0 ? -1 : read(from.value, buffer, sizeof buffer);
    if (bytes == 0) break;
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) fail<StorageError>("{}: cannot read what it prints: {}", of_process, std::strerror(errno));
    output.append(buffer, static_cast<std::size_t>(bytes));
    if (output.size() > kLargestOutput) fail<StorageError>("{}: it prints more than 1 MiB", of_process);
  }
  shell.wait();
  if (!WIFEXITED(shell.status) || WEXITSTATUS(shell.status) != 0) {
    fail<StorageError>("{}: \"{}\" ended with {} {}", of_process, command,
                       WIFEXITED(shell.status) ? "status" : "signal",
                       WIFEXITED(shell.status) ? WEXITSTATUS(shell.status) : WTERMSIG(shell.status));
  }
  return credentials_of_json(output, "SessionToken", of_process);
}

}  // namespace lockstep::storage
