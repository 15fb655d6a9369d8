// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/text.h"

namespace lockstep {

using std::chrono::steady_clock;

namespace {

/// "1.2/2.0 GiB", in the largest unit that fits the second number.
std::string bytes_of(std::int64_t done, std::int64_t total) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double unit = 1;
  std::size_t name = 0;
  while (static_cast<double>(total) >= 1024 * unit && name + 1 < std::size(kUnits)) unit *= 1024, ++name;
  return fmt::format("{:.1f}/{:.1f} {}", static_cast<double>(done) / unit, static_cast<double>(total) / unit,
                     kUnits[name]);
}

/// The bars that this thread shows.
std::vector<ProgressBar*>& shown_bars() {
  thread_local std::vector<ProgressBar*> bars;
  return bars;
}

}  // namespace

ProgressBar::ProgressBar(std::string label, std::int64_t total, bool shown, Unit unit)
    : label_(lockstep::shown(label)),
      total_(std::max<std::int64_t>(total, 1)),
      shown_(shown),
      // The launcher sets this if it passes the output to a terminal.
      terminal_(isatty(STDOUT_FILENO) == 1 || Environment::process().get("LOCKSTEP_TERMINAL") == "1"),
      unit_(unit),
      start_(steady_clock::now()) {
  if (shown_) shown_bars().push_back(this);
}

ProgressBar::~ProgressBar() {
  std::erase(shown_bars(), this);
  if (open_) std::fputs("\n", stdout), std::fflush(stdout);
}

void ProgressBar::update(std::int64_t done, const std::string& note) {
  if (!shown_) return;
  done_ = std::clamp<std::int64_t>(done, 0, total_);
  auto now = steady_clock::now();
  auto tenths = static_cast<std::int64_t>(static_cast<double>(done_) * 10 / static_cast<double>(total_));
  if (terminal_) {
    if (done_ != total_ && now - last_write_ < std::chrono::milliseconds(100)) return;
    last_write_ = now;
    std::fputs("\r", stdout);
    write(note, "\x1b[K");
    open_ = true;
  } else if (tenths > tenths_written_) {
    tenths_written_ = tenths;
    write(note, "\n");
  }
}

void ProgressBar::waits_for(const std::string& what) {
  if (shown_bars().empty()) return;
  ProgressBar& bar = *shown_bars().back();
  if (bar.terminal_) std::fputs("\r", stdout);
  bar.write("waits for " + what, bar.terminal_ ? "\x1b[K" : "\n");
  bar.open_ = bar.terminal_;
}

void ProgressBar::write(const std::string& note, const char* end) {
  constexpr std::int64_t kWidth = 20;
  auto filled = static_cast<std::size_t>(static_cast<double>(done_) * kWidth / static_cast<double>(total_));
  double seconds = std::chrono::duration<double>(steady_clock::now() - start_).count();
  std::string amount = fmt::format("{}/{}", done_, total_), left;
  if (unit_ == Unit::kBytes) {
    const double rate = static_cast<double>(done_) / std::max(seconds, 1e-3);
    amount = fmt::format("{}  {:.1f} MiB/s", bytes_of(done_, total_), rate / (1 << 20));
    if (done_ > 0 && done_ < total_)
      left = fmt::format(", {:.1f} s left", static_cast<double>(total_ - done_) / rate);
  }
  fmt::print("{}  [{}{}] {:3}%  {}  {}  {:.1f} s{}{}", label_, std::string(filled, '#'),
             std::string(static_cast<std::size_t>(kWidth) - filled, '-'),
             static_cast<int>(static_cast<double>(done_) * 100 / static_cast<double>(total_)), amount,
             lockstep::shown(note), seconds, left, end);
  std::fflush(stdout);
}

}  // namespace lockstep
