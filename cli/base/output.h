// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/base/line_splitter.h"
#include "cli/base/log_files.h"

namespace lockstep::cli {

enum class Stream { kOut = 0, kErr = 1 };

/// A destination of the lines of all processes.
struct OutputTarget {
  std::function<void(std::string_view)> write;  ///< writes or queues all of it
  bool terminal = false;
  bool color = false;
  int columns = 80;  ///< of the terminal
};

/// Combines the output of many processes line by line, each with a prefix, "[i] " or "[i@host] ". On a
/// terminal, a line of process 0 that overwrites itself, such as a progress bar, stays below the others and
/// is updated; elsewhere, and for the other processes, only its last state is printed.
class Output {
 public:
  /// `hosts`: the host of each process for the prefixes, or none. If both targets are terminals, they must be
  /// the same terminal.
  Output(int num_processes, std::vector<std::string> hosts, OutputTarget out, OutputTarget err);

  /// Also copies each process's bytes unchanged to files, as described at LogFiles. Throws Error if they
  /// cannot be created; later write errors are reported once.
  void keep_logs(const std::filesystem::path& folder, int attempt);

  /// Prints the output of these processes only.
  void show_only(const std::set<int>& processes);

  /// Keeps the last bytes of each process for end_of.
  void keep_ends() { ends_.resize(splitters_[0].size()); }

  /// The last output of the process, beginning with a complete line, at most 8 KiB; empty without keep_ends.
  std::string_view end_of(int process) const;

  /// Output of the process.
  void feed(int process, Stream stream, std::string_view bytes);

  /// The process's stream has ended: prints the unfinished line.
  void finish(int process, Stream stream);

  /// Sets a function that gets the launcher's own lines from now on.
  void on_say(std::function<void(std::string_view)> heard) { heard_ = std::move(heard); }

  /// Writes a line of the launcher itself to standard error.
  void say(std::string_view line);

 private:
  void print(Stream stream, std::string_view text);
  std::string prefix(int process, const OutputTarget& target) const;
  std::string progress_line() const;
  bool shown(int process) const { return !shown_ || shown_->contains(process); }

  OutputTarget targets_[2];
  const std::vector<std::string> hosts_;
  std::vector<LineSplitter> splitters_[2];
  std::optional<LogFiles> logs_;
  std::vector<std::string> ends_;
  std::optional<std::set<int>> shown_;  // none: all
  std::function<void(std::string_view)> heard_;
  std::string shown_progress_;
};

}  // namespace lockstep::cli
