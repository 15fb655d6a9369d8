#include "lockstep/base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "lockstep/base/environment.h"

namespace lockstep {

using std::chrono::steady_clock;

ProgressBar::ProgressBar(std::string label, std::int64_t total, bool shown)
    : label_(std::move(label)),
      total_(std::max<std::int64_t>(total, 1)),
      shown_(shown),
      // The launcher says so where it passes the output on to one.
      terminal_(isatty(STDOUT_FILENO) == 1 || Environment::process().get("LOCKSTEP_TERMINAL") == "1"),
      start_(steady_clock::now()) {}

ProgressBar::~ProgressBar() {
  if (open_) std::fputs("\n", stdout), std::fflush(stdout);
}

void ProgressBar::update(std::int64_t done, const std::string& note) {
  if (!shown_) return;
  done_ = std::clamp<std::int64_t>(done, 0, total_);
  auto now = steady_clock::now();
  std::int64_t tenths = done_ * 10 / total_;
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

void ProgressBar::write(const std::string& note, const char* end) {
  constexpr std::int64_t kWidth = 20;
  auto filled = static_cast<std::size_t>(done_ * kWidth / total_);
  double seconds = std::chrono::duration<double>(steady_clock::now() - start_).count();
  fmt::print("{}  [{}{}] {:3}%  {}/{}  {}  {:.1f} s{}", label_, std::string(filled, '#'),
             std::string(static_cast<std::size_t>(kWidth) - filled, '-'), done_ * 100 / total_, done_, total_,
             note, seconds, end);
  std::fflush(stdout);
}

}  // namespace lockstep
