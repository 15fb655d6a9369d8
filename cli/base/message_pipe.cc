// SPDX-License-Identifier: Apache-2.0
#include "cli/base/message_pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lockstep::cli {

MessagePipe::MessagePipe(int in, int out) : in_(in), out_(out) {
  for (const int descriptor : {in, out}) {
    if (descriptor >= 0) fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  }
}

MessagePipe::~MessagePipe() {
  if (in_ >= 0) close(in_);
  close_out();
}

void MessagePipe::close_out() {
  if (out_ >= 0) close(out_);
  out_ = -1;
  outgoing_.clear();
  written_ = 0;
}

void MessagePipe::send(const Message& message) {
  if (out_ < 0) return;
  outgoing_ += to_line(message);
  flush();
}

void MessagePipe::queue_line(std::string_view begin, std::string_view rest) {
  if (out_ < 0) return;
  outgoing_.append(begin).append(rest).append("\n");
}

void MessagePipe::flush_all(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  flush();
  while (pending() > 0 && std::chrono::steady_clock::now() < deadline) {
    pollfd writable = polled_out();
    poll(&writable, 1, 100);
    flush();
  }
}

void MessagePipe::flush() {
  while (out_ >= 0 && pending() > 0) {
    const ssize_t sent = write(out_, outgoing_.data() + written_, pending());
    if (sent > 0) {
      written_ += static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      return close_out();
    }
  }
  // Not at each write, for much may wait behind.
  if (2 * written_ < outgoing_.size()) return;
  outgoing_.erase(0, written_);
  written_ = 0;
}

std::vector<std::string> MessagePipe::read(std::size_t longest) {
  char buffer[64 * 1024];
  while (in_ >= 0) {
    const ssize_t got = ::read(in_, buffer, sizeof(buffer));
    if (got > 0) {
      incoming_.append(buffer, static_cast<std::size_t>(got));
      if (got < static_cast<ssize_t>(sizeof(buffer))) break;
      if (incoming_.size() > 16 * sizeof(buffer)) break;
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else if (got < 0 && errno == EAGAIN) {
      break;
    } else {
      close(in_);
      in_ = -1;
    }
  }
  std::vector<std::string> lines = take_lines(incoming_, searched_);
  const auto fits = [&](const std::string& line) { return line.size() <= longest; };
  const auto too_long = std::ranges::find_if_not(lines, fits);
  line_too_long_ = line_too_long_ || too_long != lines.end() || !fits(incoming_);
  if (line_too_long_) {
    lines.erase(too_long, lines.end());
    incoming_.clear();
    if (in_ >= 0) close(std::exchange(in_, -1));
  }
  searched_ = incoming_.size();
  if (in_ < 0 && !incoming_.empty()) lines.push_back(std::exchange(incoming_, {}));
  return lines;
}

}  // namespace lockstep::cli
