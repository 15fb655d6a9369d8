#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>

namespace lockstep::cli {

/// How often a failed job is started again: `count` times, or `count` times within each `within`.
struct RestartLimit {
  int count = 0;
  std::optional<std::chrono::seconds> within;
  std::string text = "0";  ///< As the user gave it.
};

/// Reads "3", or "10/1h": a number of restarts, and a time in s, m, h or d. Throws Error for anything else.
RestartLimit parse_restart_limit(const std::string& text);

/// The restarts of one job: which are left, and how long to wait before each. Knows time only as it is told.
class Restarts {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `longest_wait`: before a restart.
  Restarts(RestartLimit limit, std::chrono::seconds longest_wait);

  /// Takes a restart for a start of the job that has failed; false where none is left.
  bool take(Time started, Time failed);

  /// How long to wait before the restart taken last: not at all after the first failure, then 1 s, and twice
  /// as long after each further start that fails within a minute.
  std::chrono::seconds wait() const;

  /// "restart 1 of 3", "restart 12 (2 of 10 within 1h)": the one taken last.
  std::string describe() const;

 private:
  const RestartLimit limit_;
  const std::chrono::seconds longest_wait_;
  int taken_ = 0;
  int short_starts_ = 0;        // one behind the other
  std::deque<Time> in_window_;  // when those were taken that still count
};

}  // namespace lockstep::cli
