// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>

namespace lockstep::cli {

/// The open file of a trace, which may also be a pipe. Its content is replaced only when the trace is
/// written.
class TraceFile {
 public:
  /// Opens it without waiting for a reader. Throws Error if it cannot be written, such as a FIFO that nobody
  /// reads.
  explicit TraceFile(std::filesystem::path path);

  /// Takes over a descriptor of the file, which another process has opened for writing.
  TraceFile(std::filesystem::path path, int descriptor);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Lets `put` write the content. Blocks while a reader is slow, but throws Error if it takes nothing for 10
  /// s, and for any other failure of a write.
  void write(const std::function<void(std::ostream&)>& put);

 private:
  const std::filesystem::path path_;
  const int descriptor_;
};

}  // namespace lockstep::cli
