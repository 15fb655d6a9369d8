// SPDX-License-Identifier: Apache-2.0
#pragma once

// Only for the tests of this folder.

#include <sys/resource.h>
#include <unistd.h>

namespace lockstep::collectives {

/// While it exists, this process cannot open another file descriptor.
class NoMoreDescriptors {
 public:
  NoMoreDescriptors() {
    const int lowest = dup(STDERR_FILENO);
    close(lowest);
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{static_cast<rlim_t>(lowest), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoMoreDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreDescriptors(const NoMoreDescriptors&) = delete;
  NoMoreDescriptors& operator=(const NoMoreDescriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace lockstep::collectives
