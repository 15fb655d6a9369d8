// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/message_pipe.h"

namespace lockstep::cli {

/// The standard input and output of an agent or a relay: the messages from and to whoever has started it, the
/// launcher or a relay. Each side says at least every second that it is there. Used by one thread.
class ParentPipe {
 public:
  using Clock = std::chrono::steady_clock;

  /// How much may wait to be written before no more output is taken from below.
  static constexpr std::size_t kMostPending = 4 << 20;

  ParentPipe();  ///< says hello

  MessagePipe& pipe() { return pipe_; }

  /// The lines since the last call.
  std::vector<std::string> read();

  /// The parent said that it will be stopped for a while: until it is heard again, its silence is no sign of
  /// failure.
  void pause() { paused_ = true; }

  /// Whether the parent is gone, or has been silent for longer than `limit`; 0: no limit.
  bool gone(std::chrono::milliseconds limit) const;

  bool full() const { return pipe_.pending() > kMostPending; }

  /// Says that this process is still here, when it is time.
  void keep_alive();
  Clock::time_point next_word() const;

  /// The last message; blocks until it and all others are written, at most 5 s.
  void say_done();

 private:
  MessagePipe pipe_;
  Clock::time_point heard_ = Clock::now(), said_ = heard_;
  bool paused_ = false;
};

}  // namespace lockstep::cli
