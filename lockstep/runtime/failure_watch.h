#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "lockstep/coordination/client.h"

namespace lockstep::runtime {

/// Decides on the first cause of the job's failure where the coordinator does not: what this process saw
/// first counts, unless the coordinator's word comes within the grace. All methods may be called from any
/// thread, and none blocks for long.
class FailureWatch {
 public:
  /// `decide` is called once, by a thread of the watch, when the grace of the first sighting is over.
  FailureWatch(std::chrono::milliseconds grace, std::function<void(const coordination::JobError&)> decide);
  ~FailureWatch();
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

  /// This process saw another one fail. Only the first counts: false for any other.
  bool saw(coordination::JobError sighting);

  /// The first cause is known: nothing will be decided.
  void settle();

  /// What was seen first.
  std::optional<coordination::JobError> first() const;

 private:
  const std::chrono::milliseconds grace_;
  const std::function<void(const coordination::JobError&)> decide_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<coordination::JobError> first_;
  bool settled_ = false;
  std::thread thread_;  // Started by the first sighting.
};

}  // namespace lockstep::runtime
