// SPDX-License-Identifier: Apache-2.0
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

  /// Blocks for this time, or until `cancel`; returns whether it was cancelled.
  bool wait_for(std::chrono::milliseconds time) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool cancelled_ = false;
};

/// The number of tries, and the wait between them: it doubles after each try, up to a limit, and half of it
/// is random, so that clients that failed together do not retry together.
struct RetryPolicy {
  int tries = 10;  ///< in total
  std::chrono::milliseconds first_wait{200};
  std::chrono::milliseconds longest_wait{20'000};

  /// The wait after this number of tries, from 1; at least what the server has asked for, but within the
  /// limit.
  std::chrono::milliseconds wait_after(int tried, std::chrono::milliseconds asked_for = {}) const;
};

}  // namespace lockstep::storage
