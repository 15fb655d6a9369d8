#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace lockstep::storage {

/// Tells worker threads that their result is no longer needed.
class Cancellation {
 public:
  void cancel();
  bool cancelled() const;

  /// Blocks for that long, or until `cancel`; whether it was cancelled.
  bool wait_for(std::chrono::milliseconds time) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool cancelled_ = false;
};

/// How often something is tried, and the wait in between: it doubles after each try, up to a bound, and half
/// of it is random, so that clients that failed together do not retry together.
struct RetryPolicy {
  int tries = 10;  ///< in all
  std::chrono::milliseconds first_wait{200};
  std::chrono::milliseconds longest_wait{20'000};

  /// The wait after the try of this number, from 1; not shorter than what the server has asked for, as far
  /// as the bound allows.
  std::chrono::milliseconds wait_after(int tried, std::chrono::milliseconds asked_for = {}) const;
};

}  // namespace lockstep::storage
