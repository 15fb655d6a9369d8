// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>

namespace lockstep::cli {

/// How often a failed job is started again: `count` times, or `count` times within each period `within`.
struct RestartLimit {
  int count = 0;
  std::optional<std::chrono::seconds> within;
  std::string text = "0";  ///< as given by the user
};

/// Parses "3", or "10/1h": a number of restarts, and a time in s, m, h or d. Throws Error for anything else.
RestartLimit parse_restart_limit(const std::string& text);

/// The restarts of one job: how many are left, and how long to wait before each. Time is passed as an
/// argument.
class Restarts {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `longest_wait`: before a restart.
  Restarts(RestartLimit limit, std::chrono::seconds longest_wait);

  /// Uses a restart for a failed start of the job; false if none is left.
  bool take(Time started, Time failed);

  /// The wait before the last restart: none after the first failure, then 1 s, doubled after each further
  /// start that fails within a minute.
  std::chrono::seconds wait() const;

  /// "restart 1 of 3", "restart 12 (2 of 10 within 1h)": the last restart.
  std::string describe() const;

 private:
  const RestartLimit limit_;
  const std::chrono::seconds longest_wait_;
  int taken_ = 0;
  int short_starts_ = 0;        // consecutive ones
  std::deque<Time> in_window_;  // the times of restarts that still count
};

}  // namespace lockstep::cli
