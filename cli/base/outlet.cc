// SPDX-License-Identifier: Apache-2.0
#include "cli/base/outlet.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace lockstep::cli {

Outlet::Outlet(int descriptor) : descriptor_(descriptor) {
  struct stat status {};
  fstat(descriptor, &status);
  if (S_ISSOCK(status.st_mode)) way_ = Way::kSend;
  if (S_ISREG(status.st_mode)) way_ = Way::kNonBlocking;
  if (!S_ISFIFO(status.st_mode) && isatty(descriptor) == 0) return;
  // O_NONBLOCK would hold for all who share the descriptor; not if the pipe or terminal is opened again.
  const std::string file = fmt::format("/proc/self/fd/{}", descriptor);
  const int again = open(file.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (again < 0) return;
  descriptor_ = again;
  own_descriptor_ = true;
  way_ = Way::kNonBlocking;
}

Outlet::~Outlet() {
  if (own_descriptor_) close(descriptor_);
}

void Outlet::write(std::string_view text) {
  const bool waiting = pending() > 0;
  queue_ += text;
  if (waiting) return;
  moved_ = std::chrono::steady_clock::now();
  flush();
}

ssize_t Outlet::write_some(std::string_view text) {
  if (way_ == Way::kSend) return send(descriptor_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (way_ == Way::kNonBlocking) return ::write(descriptor_, text.data(), text.size());
  pollfd writable{descriptor_, POLLOUT, 0};
  if (poll(&writable, 1, 0) == 0) {
    errno = EAGAIN;
    return -1;
  }
  // So much a pipe takes that is writable at all.
  return ::write(descriptor_, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
}

void Outlet::flush() {
  while (pending() > 0) {
    const ssize_t written = write_some(std::string_view(queue_).substr(sent_));
    if (written > 0) {
      sent_ += static_cast<std::size_t>(written);
      moved_ = std::chrono::steady_clock::now();
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      if (errno != EPIPE && error_ == 0) error_ = errno;
      sent_ = queue_.size();
    }
  }
  if (sent_ < queue_.size() / 2) return;
  queue_.erase(0, sent_);
  sent_ = 0;
}

int Outlet::take_error() {
  if (error_ == 0 || error_taken_) return 0;
  error_taken_ = true;
  return error_;
}

}  // namespace lockstep::cli
