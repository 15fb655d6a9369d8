// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "lockstep/watch/memory.h"

namespace lockstep::watch {

/// Starts this executable again with the disabled tests of `suite`, which write into the memory of
/// `descriptor`.
inline pid_t start_writer(int descriptor, const std::string& suite) {
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  fcntl(descriptor, F_SETFD, 0);
  setenv(kDescriptorVariable, std::to_string(descriptor).c_str(), 1);
  execl("/proc/self/exe", "writer", ("--gtest_filter=" + suite + ".*").c_str(),
        "--gtest_also_run_disabled_tests", nullptr);
  _exit(1);
}

}  // namespace lockstep::watch
