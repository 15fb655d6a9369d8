// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

#include <chrono>

namespace lockstep::testing {

/// The processor time that this process has taken. Unlike a clock's time it does not depend on what else
/// runs.
inline std::chrono::milliseconds processor_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto time = [](const timeval& t) {
    return std::chrono::milliseconds(t.tv_sec * 1000 + t.tv_usec / 1000);
  };
  return time(usage.ru_utime) + time(usage.ru_stime);
}

}  // namespace lockstep::testing
