// SPDX-License-Identifier: Apache-2.0
#include "cli/base/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace lockstep::cli {
namespace {

constexpr std::size_t kMostPendingOutput = 1 << 20;

bool same_file(int one, int other) {
  struct stat a {
  }, b{};
  return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

OutputTarget target_for(int descriptor, Outlet& outlet) {
  OutputTarget target;
  target.write = [&outlet](std::string_view text) { outlet.write(text); };
  const char* no_color = std::getenv("NO_COLOR");
  target.terminal = isatty(descriptor) == 1;
  target.color = target.terminal && (no_color == nullptr || *no_color == '\0');
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) target.columns = size.ws_col;
  return target;
}

}  // namespace

Console::Console()
    : out_(std::make_unique<Outlet>(STDOUT_FILENO)),
      other_err_(same_file(STDOUT_FILENO, STDERR_FILENO) ? nullptr : std::make_unique<Outlet>(STDERR_FILENO)),
      err_(other_err_ ? *other_err_ : *out_) {}

OutputTarget Console::out() { return target_for(STDOUT_FILENO, *out_); }

OutputTarget Console::err() { return target_for(STDERR_FILENO, err_); }

void Console::add_polled(std::vector<pollfd>& polled) const {
  polled.push_back(out_->polled());
  polled.push_back(other_err_ ? other_err_->polled() : pollfd{-1, 0, 0});
}

void Console::work() {
  out_->flush();
  err_.flush();
  if (const int error = out_->take_error(); error != 0) {
    err_.write(
        fmt::format("lockstep: cannot write standard output: {}; lines are lost\n", std::strerror(error)));
  }
  const std::size_t pending = std::max(out_->pending(), err_.pending());
  full_ = pending > (full_ ? kMostPendingOutput / 2 : kMostPendingOutput);
}

bool Console::empty() const { return out_->pending() == 0 && err_.pending() == 0; }

std::chrono::steady_clock::time_point Console::stuck_since() const {
  if (out_->pending() == 0) return err_.stuck_since();
  if (err_.pending() == 0) return out_->stuck_since();
  return std::max(out_->stuck_since(), err_.stuck_since());
}

}  // namespace lockstep::cli
