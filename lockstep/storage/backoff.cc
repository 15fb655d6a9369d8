// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/backoff.h"

#include <algorithm>
#include <random>

namespace lockstep::storage {

void Cancellation::cancel() {
  {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  changed_.notify_all();
}

bool Cancellation::cancelled() const {
  std::lock_guard lock(mutex_);
  return cancelled_;
}

bool Cancellation::wait_for(std::chrono::milliseconds time) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return cancelled_; });
}

std::chrono::milliseconds RetryPolicy::wait_after(int tried, std::chrono::milliseconds asked_for) const {
  thread_local std::mt19937_64 random{std::random_device{}()};
  auto most = first_wait;
  for (int i = 1; i < tried && most < longest_wait; ++i) most *= 2;
  most = std::min(most, longest_wait);
  const auto half = most / 2;
  const std::chrono::milliseconds jitter{
      std::uniform_int_distribution<std::int64_t>(0, (most - half).count())(random)};
  return std::max(half + jitter, std::min(asked_for, longest_wait));
}

}  // namespace lockstep::storage
