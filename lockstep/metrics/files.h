// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "lockstep/metrics/appended_file.h"
#include "lockstep/metrics/metrics.h"

namespace lockstep::metrics {

/// The files to which one process writes its entries. Use it from one thread at a time.
class Files {
 public:
  /// For process `process` in start `attempt` of the job; files are opened at the first entry.
  Files(const Options& options, int process, int attempt);

  /// Adds the entry to each file. Never throws: entries that cannot be written are dropped. The first failure
  /// is logged as a warning; when writing works again, a line with the number of dropped entries is logged.
  void write(const Entry& entry);

 private:
  struct File {
    std::filesystem::path path;
    std::optional<AppendedFile> open = std::nullopt;
    std::uint64_t left_out = 0;  ///< since the last successful write
  };

  /// Opens the file if necessary, writes `head` to a new file, and appends the record.
  static void write(File& file, bool lines, const std::string& head, const std::string& record);

  const Options options_;
  const int process_, attempt_;
  File lines_, events_;
};

}  // namespace lockstep::metrics
