#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep {

/// A progress bar. On a terminal it is redrawn in place; otherwise a new line is written at each tenth of the
/// work. To be used by one thread.
///   train  [############--------]  60%  660/1100  loss 0.0312  2.1 s
///   index  [############--------]  60%  1.2/2.0 GiB  585.1 MiB/s    2.1 s, 1.4 s left
class ProgressBar {
 public:
  /// What is counted. For bytes the rate and the remaining time are shown too.
  enum class Unit { kCount, kBytes };

  /// `shown` is false if another process shows it: then nothing is written.
  ProgressBar(std::string label, std::int64_t total, bool shown = true, Unit unit = Unit::kCount);

  /// Ends the line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `done` of the total are done; `note` is put behind. Cheap: it writes ten times a second at most.
  void update(std::int64_t done, const std::string& note = "");

  /// Shows what this thread waits for on its newest visible bar, if it has one: on a terminal in place of the
  /// note, until the next update; otherwise in a line of its own.
  static void waits_for(const std::string& what);

 private:
  void write(const std::string& note, const char* end);

  std::string label_;
  std::int64_t total_, done_ = 0, tenths_written_ = 0;
  bool shown_, terminal_, open_ = false;
  Unit unit_;
  std::chrono::steady_clock::time_point start_, last_write_;
};

}  // namespace lockstep
