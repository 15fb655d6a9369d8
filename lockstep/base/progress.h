#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep {

/// A line that shows how far a long piece of work has come. On a terminal it is drawn again and again in
/// place; elsewhere a new line is written at each tenth of the way. To be used by one thread.
///   train  [############--------]  60%  660/1100  loss 0.0312  2.1 s
///   index  [############--------]  60%  1.2/2.0 GiB  585.1 MiB/s    2.1 s, 1.4 s left
class ProgressBar {
 public:
  /// What is counted. Of bytes the rate and the time that is left are shown too.
  enum class Unit { kCount, kBytes };

  /// `shown` is false where another process shows it: then nothing is written.
  ProgressBar(std::string label, std::int64_t total, bool shown = true, Unit unit = Unit::kCount);

  /// Ends the line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `done` of the total are done; `note` is put behind. Cheap: it writes ten times a second at most.
  void update(std::int64_t done, const std::string& note = "");

  /// Says what this thread waits for on its newest bar, where it has one that is shown: on a terminal in the
  /// place of the note, until the next update; elsewhere in a line of its own.
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
