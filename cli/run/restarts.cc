// SPDX-License-Identifier: Apache-2.0
#include "cli/run/restarts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "lockstep/base/fail.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::minutes kShortStart(1);
constexpr int kMostRestarts = 1000000;

// A whole number at the beginning of the text, which loses it.
std::optional<int> take_number(std::string_view& text, int least) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < least || number > kMostRestarts) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

std::optional<std::chrono::seconds> seconds_of(std::string_view text) {
  const std::optional<int> number = take_number(text, 1);
  if (!number) return std::nullopt;
  if (text == "s") return std::chrono::seconds(*number);
  if (text == "m") return std::chrono::minutes(*number);
  if (text == "h") return std::chrono::hours(*number);
  if (text == "d") return std::chrono::hours(24) * *number;
  return std::nullopt;
}

}  // namespace

RestartLimit parse_restart_limit(const std::string& text) {
  std::string_view rest = text;
  RestartLimit limit{.text = text};
  const std::optional<int> count = take_number(rest, 0);
  if (rest.starts_with('/')) {
    limit.within = seconds_of(rest.substr(1));
    if (limit.within) rest = {};
  }
  if (!count || !rest.empty())
    fail("--max-restarts '{}' is not understood: expected a number, or a number within a time, such as 10/1h",
         text);
  limit.count = *count;
  return limit;
}

Restarts::Restarts(RestartLimit limit, std::chrono::seconds longest_wait)
    : limit_(std::move(limit)), longest_wait_(longest_wait) {}

bool Restarts::take(Time started, Time failed) {
  while (limit_.within && !in_window_.empty() && failed >= in_window_.front() + *limit_.within)
    in_window_.pop_front();
  if (static_cast<int>(in_window_.size()) >= limit_.count) return false;
  in_window_.push_back(failed);
  ++taken_;
  short_starts_ = failed - started < kShortStart ? short_starts_ + 1 : 1;
  return true;
}

std::chrono::seconds Restarts::wait() const {
  if (short_starts_ < 2) return std::chrono::seconds(0);
  const int doublings = std::min(short_starts_ - 2, 30);
  return std::min(longest_wait_, std::chrono::seconds(1L << doublings));
}

std::string Restarts::describe() const {
  if (!limit_.within) return fmt::format("restart {} of {}", taken_, limit_.count);
  const std::string window = limit_.text.substr(limit_.text.find('/') + 1);
  return fmt::format("restart {} ({} of {} within {})", taken_, in_window_.size(), limit_.count, window);
}

}  // namespace lockstep::cli
