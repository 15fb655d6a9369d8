#pragma once

#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

/// A file for each process, FOLDER/process-I.log, on a restart of the job FOLDER/process-I.attempt-A.log.
class LogFiles {
 public:
  /// Makes the folder and the files. What an earlier run has left there is kept: all of it gets the next free
  /// number, process-3.log.1 and so on. Throws Error where the files cannot be made.
  LogFiles(const std::filesystem::path& folder, int num_processes, int attempt);
  ~LogFiles();
  LogFiles(const LogFiles&) = delete;
  LogFiles& operator=(const LogFiles&) = delete;

  /// Appends to the file of the process. Returns a line for the user where that fails for the first time;
  /// what could not be written is left out.
  std::optional<std::string> write(int process, std::string_view bytes);

 private:
  int opened(int process);

  struct File {
    std::filesystem::path path;
    int descriptor = -1;
  };
  std::vector<File> files_;
  std::deque<int> open_;  // those with a descriptor, the one opened first in front
  bool failed_ = false;
};

}  // namespace lockstep::cli
