// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/file_calls.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <utility>

namespace lockstep::storage {
namespace {

FileCalls& system_calls() {
  static FileCalls calls;
  return calls;
}

std::atomic<FileCalls*> used = nullptr;

}  // namespace

int FileCalls::open(const char* path, int flags, mode_t mode) {
  return ::open(path, flags | O_CLOEXEC, mode);
}
ssize_t FileCalls::pread(int file, void* into, std::size_t bytes, off_t offset) {
  return ::pread(file, into, bytes, offset);
}
ssize_t FileCalls::pwrite(int file, const void* from, std::size_t bytes, off_t offset) {
  return ::pwrite(file, from, bytes, offset);
}
int FileCalls::ftruncate(int file, off_t size) { return ::ftruncate(file, size); }
int FileCalls::fsync(int file) { return ::fsync(file); }
int FileCalls::close(int file) { return ::close(file); }
int FileCalls::mkdir(const char* path, mode_t mode) { return ::mkdir(path, mode); }
int FileCalls::rename(const char* from, const char* to, int folder) {
  return ::renameat(folder, from, folder, to);
}
int FileCalls::unlink(const char* path, int folder) { return ::unlinkat(folder, path, 0); }
int FileCalls::rmdir(const char* path) { return ::rmdir(path); }

FileCalls& file_calls() {
  FileCalls* calls = used.load(std::memory_order_acquire);
  return calls != nullptr ? *calls : system_calls();
}

ScopedFileCalls::ScopedFileCalls(FileCalls& calls) : before_(used.exchange(&calls)) {}
ScopedFileCalls::~ScopedFileCalls() { used.store(before_); }

}  // namespace lockstep::storage
