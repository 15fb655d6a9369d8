#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/line_splitter.h"
#include "cli/log_files.h"

namespace lockstep::cli {

enum class Stream { kOut = 0, kErr = 1 };

/// Where the lines of all processes go together.
struct OutputTarget {
  std::function<void(std::string_view)> write;  ///< Writes or queues all of it.
  bool terminal = false;
  bool color = false;
  int columns = 80;  ///< Of the terminal.
};

/// Brings the output of many processes together, line by line, each with its process before it, "[i] " or
/// "[i@host] ". On a terminal a line of process 0 that overwrites itself, such as a progress bar, stays below
/// the others and moves; elsewhere, and for the other processes, only its last state is printed.
class Output {
 public:
  /// The host of each process, where they are to be named, or none. Two targets on the same terminal are
  /// expected to be one and the same terminal.
  Output(int num_processes, std::vector<std::string> hosts, OutputTarget out, OutputTarget err);

  /// Copies each process's bytes as they come to files too, as LogFiles says. Throws Error where they cannot
  /// be made; where they cannot be written later, that is said once.
  void keep_logs(const std::filesystem::path& folder, int attempt);

  /// Keeps the last bytes that each process wrote, for end_of.
  void keep_ends() { ends_.resize(splitters_[0].size()); }

  /// What the process wrote last, from the beginning of a line on, at most 8 KiB; empty without keep_ends.
  std::string_view end_of(int process) const;

  /// What the process wrote.
  void feed(int process, Stream stream, std::string_view bytes);

  /// The process's stream has ended: prints what it left of an unfinished line.
  void finish(int process, Stream stream);

  /// Hears of the lines of the launcher itself, from now on.
  void on_say(std::function<void(std::string_view)> heard) { heard_ = std::move(heard); }

  /// A line of the launcher itself, to standard error.
  void say(std::string_view line);

 private:
  void print(Stream stream, std::string_view text);
  std::string prefix(int process, const OutputTarget& target) const;
  std::string progress_line() const;

  OutputTarget targets_[2];
  const std::vector<std::string> hosts_;
  std::vector<LineSplitter> splitters_[2];
  std::optional<LogFiles> logs_;
  std::vector<std::string> ends_;
  std::function<void(std::string_view)> heard_;
  std::string shown_progress_;
};

/// The text cut to what fits in so many columns; escape sequences take none.
std::string fit(std::string_view text, int columns);

}  // namespace lockstep::cli
