// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

namespace lockstep {

int make_memory_file(const char* name, std::size_t bytes, unsigned flags) {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  getrlimit(RLIMIT_FSIZE, &limit);
  if (bytes > limit.rlim_cur) {
    errno = EFBIG;
    return -1;
  }
  const int descriptor = memfd_create(name, MFD_CLOEXEC | flags);
  if (descriptor < 0 || ftruncate(descriptor, static_cast<off_t>(bytes)) == 0) return descriptor;
  const int error = errno;
  close(descriptor);
  errno = error;
  return -1;
}

bool counts_memory_strictly() {
  int mode = 0;
  std::ifstream("/proc/sys/vm/overcommit_memory") >> mode;
  return mode == 2;
}

int make_reserved_memory_file(const char* name, std::size_t bytes, unsigned flags, bool reserve) {
  const int descriptor = make_memory_file(name, bytes, flags);
  if (descriptor < 0 || !reserve || fallocate(descriptor, 0, 0, static_cast<off_t>(bytes)) == 0)
    return descriptor;
  const int error = errno;
  close(descriptor);
  errno = error;
  return -1;
}

}  // namespace lockstep
