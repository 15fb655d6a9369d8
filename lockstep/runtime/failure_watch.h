// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "lockstep/coordination/client/client.h"

namespace lockstep::runtime {

/// Determines the first cause of the job's failure if the coordinator does not: the first failure that this
/// process saw, unless the coordinator reports a cause within the grace period. All methods may be called
/// from any thread, and none blocks for long.
class FailureWatch {
 public:
  /// `decide` is called once, by a thread of the watch, when the grace period after the first sighting ends.
  FailureWatch(std::chrono::milliseconds grace, std::function<void(const coordination::JobError&)> decide);
  ~FailureWatch();
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

  /// Reports that this process saw another one fail. Only the first report counts: returns false for later
  /// ones.
  bool saw(coordination::JobError sighting);

  /// The first cause is known; `decide` will not be called.
  void settle();

  /// As settle(), and waits for a call of `decide`, from which it must not be called.
  void stop();

  /// The first sighting.
  std::optional<coordination::JobError> first() const;

 private:
  const std::chrono::milliseconds grace_;
  const std::function<void(const coordination::JobError&)> decide_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<coordination::JobError> first_;
  bool settled_ = false;
  std::thread thread_;  // started by the first sighting
};

}  // namespace lockstep::runtime
