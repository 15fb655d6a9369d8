// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "lockstep/base/file_descriptor.h"

namespace lockstep::metrics {

/// A file to which records are appended, each completely or not at all. Use it from one thread, and from one
/// process.
class AppendedFile {
 public:
  /// Opens the file; creates it, and the folders above it, if it does not exist (lockstep/base/own_file.h).
  /// With `lines`, removes data after the last newline: an incomplete line of an earlier process. Throws
  /// Error, with the file and the reason.
  AppendedFile(std::filesystem::path path, bool lines);

  /// Appends the record, by one system call if that writes it completely. In case of an error, removes the
  /// part that was written, and throws Error with the file and the reason.
  void append(std::string_view record);

  const std::filesystem::path& path() const { return path_; }

 private:
  [[noreturn]] void refuse(const std::string& why) const;
  void cut_after_last_line();

  const std::filesystem::path path_;
  FileDescriptor file_;
  std::int64_t size_ = 0;
};

}  // namespace lockstep::metrics
