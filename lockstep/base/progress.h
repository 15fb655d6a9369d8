// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/durations.h"

namespace lockstep {

/// A progress bar. On a terminal it is redrawn in place; otherwise a new line is written at each tenth of the
/// work. Use it from one thread.
///   train  [############--------]  60%  660/1100  loss 0.0312  2.1 s
///   index  [############--------]  60%  1.2/2.0 GiB  585.1 MiB/s    2.1 s, 1.4 s left
class ProgressBar {
 public:
  /// The unit of the count. For bytes the rate and the remaining time are shown, too.
  enum class Unit { kCount, kBytes };

  /// `shown` is false if another process shows it: then nothing is written.
  ProgressBar(std::string label, std::int64_t total, bool shown = true, Unit unit = Unit::kCount);

  /// Ends the line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Sets the amount that is done; `note` is shown at the end. Cheap: it writes at most ten times a second.
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
