// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/messages.h"

namespace lockstep::cli {

/// Lines that are read from one descriptor and written to another one, without blocking. Closes both.
class MessagePipe {
 public:
  /// Makes both descriptors non-blocking; -1 where there is none.
  MessagePipe(int in, int out);
  ~MessagePipe();
  MessagePipe(const MessagePipe&) = delete;
  MessagePipe& operator=(const MessagePipe&) = delete;

  /// Queues the message and writes as much as possible. Drops it if the other side is gone.
  void send(const Message& message);

  /// Queues a line that is encoded already, given in two parts and without its end, and writes nothing yet.
  void queue_line(std::string_view begin, std::string_view rest);

  /// Writes as much as possible.
  void flush();

  /// Writes all that is queued, for at most this time. Blocks.
  void flush_all(std::chrono::milliseconds limit);

  /// The number of queued bytes.
  std::size_t pending() const { return outgoing_.size() - written_; }

  /// Longer lines are not sent, and not taken from the other side.
  static constexpr std::size_t kLongestLine = std::size_t{64} << 20;

  /// The complete lines since the last call; at the end of the stream also its unfinished one. A line that is
  /// longer than `longest` ends the stream.
  std::vector<std::string> read(std::size_t longest = kLongestLine);

  /// The stream has ended by such a line.
  bool line_too_long() const { return line_too_long_; }

  /// No more data will arrive.
  bool in_ended() const { return in_ < 0; }

  /// No more data can be sent, because the other side does not read any more.
  bool out_ended() const { return out_ < 0; }

  pollfd polled_in() const { return {in_, POLLIN, 0}; }
  pollfd polled_out() const { return {pending() > 0 ? out_ : -1, POLLOUT, 0}; }

  /// Ends the stream that the other side reads.
  void close_out();

 private:
  int in_, out_;
  std::string incoming_, outgoing_;
  std::size_t written_ = 0;   // of outgoing_
  std::size_t searched_ = 0;  // of incoming_, for the end of a line
  bool line_too_long_ = false;
};

}  // namespace lockstep::cli
