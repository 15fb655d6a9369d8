#pragma once

#include <optional>
#include <string>

#include "lockstep/metrics/appended_file.h"
#include "lockstep/metrics/metrics.h"

namespace lockstep::metrics {

/// The files that one process writes its entries to. To be used by one thread at a time.
class Files {
 public:
  /// Of process `process` in start `attempt` of the job; nothing is opened before the first entry.
  Files(const Options& options, int process, int attempt);

  /// Adds the entry to each file. Never throws: what cannot be written is left out; the first time that is a
  /// warning, and when it can be written again a line that says how many were left out.
  void write(const Entry& entry);

 private:
  struct File {
    std::filesystem::path path;
    std::optional<AppendedFile> open = std::nullopt;
    std::uint64_t left_out = 0;  ///< since it could be written last
  };

  /// Opens the file if it is not, puts `head` in front of a file that is new, and adds the record.
  static void write(File& file, bool lines, const std::string& head, const std::string& record);

  const Options options_;
  const int process_, attempt_;
  File lines_, events_;
};

}  // namespace lockstep::metrics
