// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/failure_watch.h"

#include <utility>

namespace lockstep::runtime {

FailureWatch::FailureWatch(std::chrono::milliseconds grace,
                           std::function<void(const coordination::JobError&)> decide)
    : grace_(grace), decide_(std::move(decide)) {}

FailureWatch::~FailureWatch() { stop(); }

void FailureWatch::stop() {
  settle();
  if (thread_.joinable()) thread_.join();
}

bool FailureWatch::saw(coordination::JobError sighting) {
  std::lock_guard lock(mutex_);
  if (first_ || settled_) return false;
  first_ = std::move(sighting);
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, grace_, [this] { return settled_; })) return;
    const coordination::JobError cause = *first_;
    lock.unlock();
    decide_(cause);
  });
  return true;
}

void FailureWatch::settle() {
  std::lock_guard lock(mutex_);
  settled_ = true;
  changed_.notify_all();
}

std::optional<coordination::JobError> FailureWatch::first() const {
  std::lock_guard lock(mutex_);
  return first_;
}

}  // namespace lockstep::runtime
