// SPDX-License-Identifier: Apache-2.0
#pragma once

// Calls on files that fail, stop early, or end the process.

#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>

#include "lockstep/storage/file_calls.h"

namespace lockstep::test {

/// The effect on a call.
enum class Fault { kNone, kKill, kEio, kEnospc, kEintr, kShort };

/// Makes the n-th call, from 0, fail, and with kEnospc all writes after it. Counts calls.
class FaultyCalls : public storage::FileCalls {
 public:
  FaultyCalls(Fault fault, int at) : fault_(fault), at_(at) {}

  int calls() const { return calls_; }
  bool happened() const { return calls_ > at_; }

  int open(const char* path, int flags, mode_t mode) override {
    return fails() ? -1 : FileCalls::open(path, flags, mode);
  }
  ssize_t pread(int file, void* into, std::size_t bytes, off_t offset) override {
    if (fails()) return -1;
    return FileCalls::pread(file, into, shortened(bytes), offset);
  }
  ssize_t pwrite(int file, const void* from, std::size_t bytes, off_t offset) override {
    if (fails()) return -1;
    return FileCalls::pwrite(file, from, shortened(bytes), offset);
  }
  int fsync(int file) override { return fails() ? -1 : FileCalls::fsync(file); }
  int close(int file) override {
    // The file is closed in any case, as by the system.
    const bool failed = fails();
    const int error = errno, result = FileCalls::close(file);
    if (!failed) return result;
    errno = error;
    return -1;
  }
  int mkdir(const char* path, mode_t mode) override { return fails() ? -1 : FileCalls::mkdir(path, mode); }
  int rename(const char* from, const char* to, int folder) override {
    return fails() ? -1 : FileCalls::rename(from, to, folder);
  }
  int unlink(const char* path, int folder) override { return FileCalls::unlink(path, folder); }
  int rmdir(const char* path) override { return FileCalls::rmdir(path); }

 private:
  bool fails() {
    const int call = calls_++;
    last_ = call == at_;
    if (call != at_) return false;
    switch (fault_) {
      case Fault::kKill:
        ::kill(::getpid(), SIGKILL);
        ::pause();
        return true;
      case Fault::kEio:
        errno = EIO;
        return true;
      case Fault::kEnospc:
        errno = ENOSPC;
        return true;
      case Fault::kEintr:
        errno = EINTR;
        return true;
      default:
        return false;
    }
  }
  std::size_t shortened(std::size_t bytes) const {
    return fault_ == Fault::kShort && last_ ? std::max<std::size_t>(1, bytes / 3) : bytes;
  }

  const Fault fault_;
  const int at_;
  std::atomic<int> calls_ = 0;
  std::atomic<bool> last_ = false;
};

}  // namespace lockstep::test
