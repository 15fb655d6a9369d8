// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::storage {

/// The operating system's calls on files, in one place so that a test can make any of them fail, stop early,
/// or end the process. Each returns what the system call returns, and sets errno; none throws.
class FileCalls {
 public:
  virtual ~FileCalls() = default;
  virtual int open(const char* path, int flags, mode_t mode);
  virtual ssize_t pread(int file, void* into, std::size_t bytes, off_t offset);
  virtual ssize_t pwrite(int file, const void* from, std::size_t bytes, off_t offset);
  virtual int ftruncate(int file, off_t size);
  virtual int fsync(int file);
  virtual int close(int file);
  virtual int mkdir(const char* path, mode_t mode);
  /// Paths that are not absolute are below the open folder, where there is one.
  virtual int rename(const char* from, const char* to, int folder = AT_FDCWD);
  virtual int unlink(const char* path, int folder = AT_FDCWD);
  virtual int rmdir(const char* path);
};

/// The file calls of this process.
FileCalls& file_calls();

/// For tests: replaces them for its lifetime. Only one at a time, and while no other thread uses files.
class ScopedFileCalls {
 public:
  explicit ScopedFileCalls(FileCalls& calls);
  ~ScopedFileCalls();
  ScopedFileCalls(const ScopedFileCalls&) = delete;
  ScopedFileCalls& operator=(const ScopedFileCalls&) = delete;

 private:
  FileCalls* before_;
};

}  // namespace lockstep::storage
