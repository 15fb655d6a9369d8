// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>

namespace lockstep::cli {

/// Opens the file of a trace (lockstep/base/own_file.h), with further `flags` of open(2). Throws Error if it
/// cannot be written.
int open_trace(const std::filesystem::path& path, int flags);

/// The open file of a trace, which may also be a pipe. Its content is replaced only when the trace is
/// written.
class TraceFile {
 public:
  /// Opens it without waiting for a reader: a FIFO that nobody reads is an Error.
  explicit TraceFile(std::filesystem::path path);

  /// Takes over a descriptor of the file, which another process has opened for writing.
  TraceFile(std::filesystem::path path, int descriptor);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Lets `put` write the content. Waits for a slow reader; throws Error if it takes nothing for 10 s, or if
  /// a write fails.
  void write(const std::function<void(std::ostream&)>& put);

 private:
  const std::filesystem::path path_;
  const int descriptor_;
};

}  // namespace lockstep::cli
