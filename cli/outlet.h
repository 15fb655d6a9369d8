#pragma once

#include <poll.h>

#include <chrono>
#include <string>
#include <string_view>

namespace lockstep::cli {

/// A descriptor that somebody else reads, written without blocking, though it is shared with programs that
/// expect it to block. What cannot be written at once waits. Where the reader has gone, all is dropped.
class Outlet {
 public:
  /// The descriptor stays its owner's.
  explicit Outlet(int descriptor);
  ~Outlet();
  Outlet(const Outlet&) = delete;
  Outlet& operator=(const Outlet&) = delete;

  void write(std::string_view text);

  /// Writes what can be written now.
  void flush();

  /// Bytes that wait to be written.
  std::size_t pending() const { return queue_.size() - sent_; }

  /// What to poll before `flush`, where something waits.
  pollfd polled() const { return {pending() > 0 ? descriptor_ : -1, POLLOUT, 0}; }

  /// Since when the reader has taken nothing of what waits; now where nothing waits.
  std::chrono::steady_clock::time_point stuck_since() const {
    return pending() > 0 ? moved_ : std::chrono::steady_clock::now();
  }

  /// The errno of the first write that failed and was dropped, for another reason than that the reader has
  /// gone; 0 where there was none, and from the second call on.
  int take_error();

 private:
  ssize_t write_some(std::string_view text);

  /// What keeps a write from blocking.
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
