#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "cli/messages.h"

namespace lockstep::cli {

/// Lines that come in by one descriptor and go out by another, without blocking. It closes both.
class MessagePipe {
 public:
  /// Makes both descriptors non-blocking; -1 where there is none.
  MessagePipe(int in, int out);
  ~MessagePipe();
  MessagePipe(const MessagePipe&) = delete;
  MessagePipe& operator=(const MessagePipe&) = delete;

  /// Queues the message and writes what can be written now. Dropped where the other side has gone.
  void send(const Message& message);

  /// Writes what can be written now.
  void flush();

  /// Bytes that wait to be written.
  std::size_t pending() const { return outgoing_.size(); }

  /// The whole lines that have come since the last call; at the end of the stream its unfinished one too.
  std::vector<std::string> read();

  /// Nothing more will come in.
  bool in_ended() const { return in_ < 0; }

  /// Nothing more can go out, for the other side does not read any more.
  bool out_ended() const { return out_ < 0; }

  pollfd polled_in() const { return {in_, POLLIN, 0}; }
  pollfd polled_out() const { return {pending() > 0 ? out_ : -1, POLLOUT, 0}; }

  /// The other side sees the end of what it reads.
  void close_out();

 private:
  int in_, out_;
  std::string incoming_, outgoing_;
};

}  // namespace lockstep::cli
