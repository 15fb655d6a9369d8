// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <chrono>
#include <string>
#include <string_view>

namespace lockstep::cli {

/// A descriptor with a reader, which is written without blocking although it is shared with programs that
/// expect it to block. Data that cannot be written at once is queued. If the reader is gone, all data is
/// dropped.
class Outlet {
 public:
  /// The descriptor is not closed.
  explicit Outlet(int descriptor);
  ~Outlet();
  Outlet(const Outlet&) = delete;
  Outlet& operator=(const Outlet&) = delete;

  void write(std::string_view text);

  /// Writes as much as possible.
  void flush();

  /// The number of queued bytes.
  std::size_t pending() const { return queue_.size() - sent_; }

  /// The descriptor to poll before `flush`, if data is queued.
  pollfd polled() const { return {pending() > 0 ? descriptor_ : -1, POLLOUT, 0}; }

  /// Since when the reader has taken no queued data; now if nothing is queued.
  std::chrono::steady_clock::time_point stuck_since() const {
    return pending() > 0 ? moved_ : std::chrono::steady_clock::now();
  }

  /// The errno of the first write that failed for another reason than a missing reader; 0 if there was none,
  /// and from the second call on.
  int take_error();

 private:
  ssize_t write_some(std::string_view text);

  /// How a write is kept from blocking.
  enum class Way { kNonBlocking, kSend, kPollFirst };

  int descriptor_;
  Way way_ = Way::kPollFirst;
  bool own_descriptor_ = false;
  std::string queue_;
  std::size_t sent_ = 0;  // of the queue
  std::chrono::steady_clock::time_point moved_;
  int error_ = 0;
  bool error_taken_ = false;
};

}  // namespace lockstep::cli
