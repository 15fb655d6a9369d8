// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/workers.h"

#include <algorithm>
#include <utility>

namespace lockstep::storage {

Workers::Workers(int most) : most_(static_cast<std::size_t>(std::max(1, most))) {}

Workers::~Workers() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::submit(std::function<void()> work) {
  std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(work));
  if (waiting_.size() > idle_ && threads_.size() < most_) {
    threads_.emplace_back([this] { run(); });
  } else {
    changed_.notify_one();
  }
}

void Workers::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    --idle_;
    if (waiting_.empty()) return;
    std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
}

TaskGroup::~TaskGroup() {
  cancel();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return under_way_ == 0; });
}

void TaskGroup::run(std::size_t weight, std::function<void(const Cancellation&)> work) {
  {
    std::lock_guard lock(mutex_);
    ++under_way_;
    weight_ += weight;
  }
  workers_.submit([this, weight, work = std::move(work)]() mutable {
    if (!cancellation_.cancelled()) {
      try {
        work(cancellation_);
      } catch (...) {
        {
          std::lock_guard lock(mutex_);
          if (first_error_ == nullptr) first_error_ = std::current_exception();
        }
        cancellation_.cancel();  // the others fail because of it: theirs is not the cause
      }
    }
    work = nullptr;
    std::lock_guard lock(mutex_);
    --under_way_;
    weight_ -= weight;
    changed_.notify_all();
  });
}

void TaskGroup::wait_for_room(std::size_t next, std::size_t most) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return first_error_ != nullptr || under_way_ == 0 || weight_ + next <= most; });
  if (first_error_ != nullptr) std::rethrow_exception(first_error_);
}

void TaskGroup::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return under_way_ == 0; });
  if (first_error_ != nullptr) std::rethrow_exception(first_error_);
}

}  // namespace lockstep::storage
