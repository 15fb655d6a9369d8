// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstddef>
#include <string>

#include "lockstep/storage/file_calls.h"

namespace lockstep::storage {

/// The alignment that O_DIRECT asks of addresses, offsets and sizes, on every disk in use.
inline constexpr std::size_t kDirectAlignment = 4096;

/// Throws "cannot WHAT PATH: the error", with what to do about it.
[[noreturn]] void fail_with(int error, const char* what, const std::string& path);

/// Repeats a call that a signal interrupted.
template <class Call>
auto retried(const Call& call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

/// A file or folder that is open.
class OpenFile {
 public:
  OpenFile() = default;

  /// Throws StorageError: "cannot WHAT PATH: ...". Where this process has no descriptor left, closes files
  /// that are idle (IdleFile).
  OpenFile(const std::string& path, int flags, const char* what);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int get() const { return file_; }
  void sync();

  /// For a file on another machine, this reports a lost write.
  void close();

 private:
  std::string path_;
  int file_ = -1;
};

/// As the system's open, but where this process has no descriptor left, closes files that are idle.
int open_descriptor(const std::string& path, int flags);

/// A file that is open for reading, and can be closed while nobody reads it, since it is opened again when it
/// is needed. Together they take at most half of the descriptors that the process may have (ulimit -n); the
/// soft limit is raised first, as far as it is needed and the hard one lets it.
class IdleFile {
 public:
  IdleFile(const IdleFile&) = delete;
  IdleFile& operator=(const IdleFile&) = delete;

  /// Closes it, unless it is in use. With `unused_only` only if it was not used since the last such call.
  /// Does not block. Returns whether it closed it.
  virtual bool close_if_idle(bool unused_only) = 0;

 protected:
  IdleFile() = default;
  virtual ~IdleFile() = default;

  /// To be called before it opens a descriptor, and after it closed one; it may be called with a lock that
  /// close_if_idle only tries to get.
  static void will_open();
  static void was_closed();

  /// The last thing that the constructor and the first that the destructor of the final class call.
  void add();
  void remove();
};

}  // namespace lockstep::storage
