// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/open_file.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/storage/url.h"

namespace lockstep::storage {
namespace {

/// The soft limit is not raised beyond this: programs that are started may close every descriptor up to it.
constexpr rlim_t kHighestLimit = 1 << 16;

/// The idle files of this process.
class IdleFiles {
 public:
  static IdleFiles& get() {
    static auto& files = *new IdleFiles;  // outlives readers that are static
    return files;
  }

  void add(IdleFile* file) {
    std::lock_guard lock(mutex_);
    files_.insert(file);
  }
  void remove(IdleFile* file) {
    std::lock_guard lock(mutex_);
    files_.erase(file);
  }

  void will_open() {
    const auto open = static_cast<rlim_t>(++open_);
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || open <= limit.rlim_cur / 2) return;
    if (!raise(limit)) make_room();
  }
  void was_closed() { --open_; }

  /// Closes a quarter of the files, first those that were not used for a while. Whether there is more room
  /// now.
  bool make_room() {
    std::lock_guard lock(mutex_);
    const std::size_t wanted = files_.size() / 4 + 1;
    std::size_t closed = 0;
    for (const bool unused_only : {true, false}) {
      for (IdleFile* file : files_) {
        if (closed == wanted) break;
        if (file->close_if_idle(unused_only)) ++closed;
      }
    }
    return closed > 0;
  }

  static bool raise() {
    rlimit limit{};
    return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && raise(limit);
  }

 private:
  static bool raise(rlimit limit) {
    const rlim_t wanted = std::min({limit.rlim_max, kHighestLimit, 2 * limit.rlim_cur});
    if (limit.rlim_cur >= wanted) return false;
    limit.rlim_cur = wanted;
    return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
  }

  std::mutex mutex_;
  std::unordered_set<IdleFile*> files_;
  std::atomic<std::int64_t> open_ = 0;
};

}  // namespace

void fail_with(int error, const char* what, const std::string& path) {
  const char* more = "";
  if (error == ENOSPC || error == EDQUOT) more = "; free some space, or choose another folder";
  if (error == EMFILE || error == ENFILE) more = "; raise the limit of open files (ulimit -n)";
  if (error == EACCES || error == EROFS || error == EPERM) more = "; check the rights of the folder";
  fail<StorageError>("cannot {} {}: {}{}", what, printable(path), std::strerror(error), more);
}

int open_descriptor(const std::string& path, int flags) {
  for (;;) {
    const int file = retried([&] { return file_calls().open(path.c_str(), flags, 0666); });
    if (file >= 0 || (errno != EMFILE && errno != ENFILE)) return file;
    const int error = errno;
    const bool more = (error == EMFILE && IdleFiles::raise()) || IdleFiles::get().make_room();
    errno = error;
    if (!more) return -1;
  }
}

OpenFile::OpenFile(const std::string& path, int flags, const char* what)
    : path_(path), file_(open_descriptor(path, flags)) {
  if (file_ < 0) fail_with(errno, what, path);
}

OpenFile::~OpenFile() {
  if (file_ >= 0) file_calls().close(file_);
}

void OpenFile::sync() {
  // A failed fsync is not repeated: the next one may succeed although pages are lost.
  if (retried([&] { return file_calls().fsync(file_); }) < 0) fail_with(errno, "bring to disk", path_);
}

void OpenFile::close() {
  if (file_calls().close(std::exchange(file_, -1)) < 0 && errno != EINTR) fail_with(errno, "close", path_);
}

void IdleFile::will_open() { IdleFiles::get().will_open(); }
void IdleFile::was_closed() { IdleFiles::get().was_closed(); }
void IdleFile::add() { IdleFiles::get().add(this); }
void IdleFile::remove() { IdleFiles::get().remove(this); }

}  // namespace lockstep::storage
