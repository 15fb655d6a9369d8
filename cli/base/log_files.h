// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

/// A file for each process, FOLDER/process-I.log, on a restart of the job FOLDER/process-I.attempt-A.log.
class LogFiles {
 public:
  /// Which logs in the folder are of an earlier run: all of them, or only those of the same processes,
  /// because other hosts may share the folder and write the others.
  enum class Earlier { kAll, kOfTheseProcesses };

  /// Creates the folder and the files, for this user only (lockstep/base/own_file.h). Files of an earlier run
  /// are kept: all get the next free number, process-3.log.1 and so on. Throws Error if the files cannot be
  /// created.
  LogFiles(const std::filesystem::path& folder, const std::vector<int>& processes, int attempt,
           Earlier earlier);
  ~LogFiles();
  LogFiles(const LogFiles&) = delete;
  LogFiles& operator=(const LogFiles&) = delete;

  /// Appends to the file of the process. The first failure returns a line for the user; data that could not
  /// be written is dropped.
  std::optional<std::string> write(int process, std::string_view bytes);

 private:
  int opened(int process, std::string* why_not);

  struct File {
    std::filesystem::path path;
    int descriptor = -1;
  };
  std::map<int, File> files_;  // by process
  std::deque<int> open_;       // those with an open descriptor, the oldest first
  bool failed_ = false;
};

}  // namespace lockstep::cli
