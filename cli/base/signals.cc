// SPDX-License-Identifier: Apache-2.0
#include "cli/base/signals.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

namespace lockstep::cli {

bool is_ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

void let_writes_fail() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

Signals::Signals() {
  // Where it is ignored, as a parent may leave it, the kernel tells of no child's end.
  signal(SIGCHLD, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT}) {
    // A blocked signal would come though it is ignored.
    if (!is_ignored(number)) sigaddset(&set, number);
  }
  const int error = pthread_sigmask(SIG_BLOCK, &set, nullptr);
  if (error != 0) throw std::system_error(error, std::generic_category(), "pthread_sigmask");
  descriptor_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "signalfd");
}

std::vector<Signal> Signals::take() {
  std::vector<Signal> signals;
  signalfd_siginfo info;
  while (read(descriptor_, &info, sizeof(info)) == sizeof(info)) {
    signals.push_back(
        {.number = static_cast<int>(info.ssi_signo), .from_terminal = info.ssi_code == SI_KERNEL});
  }
  return signals;
}

}  // namespace lockstep::cli
