// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/in_flight.h"

#include <signal.h>

#include "lockstep/base/fail.h"
#include "lockstep/collectives/patience.h"

namespace lockstep::collectives {

InFlight::~InFlight() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  to_do_.notify_one();
  thread_.join();
}

void InFlight::start(const Key& key, std::function<void()> collective) {
  std::lock_guard lock(mutex_);
  auto [it, added] = all_.try_emplace(key);
  if (!added) {
    fail_internally("collective {} of program {:016x} was started twice and not awaited", key.second,
                    key.first);
  }
  it->second = std::make_shared<Flight>();
  it->second->collective = std::move(collective);
  waiting_.push_back(it->second);
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  to_do_.notify_one();
}

void InFlight::finish(const Key& key) {
  std::unique_lock lock(mutex_);
  const auto it = all_.find(key);
  if (it == all_.end()) {
    fail_internally("collective {} of program {:016x} is awaited but was not started", key.second, key.first);
  }
  const std::shared_ptr<Flight> flight = it->second;
  done_.wait(lock, [&] { return flight->done; });
  all_.erase(it);
  if (!flight->error) return;
  // The program ends here, and awaits none of the others.
  done_.wait(lock, [&] { return waiting_.empty() && !busy_; });
  all_.clear();
  std::rethrow_exception(flight->error);
}

void InFlight::drain() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return waiting_.empty() && !busy_; });
}

void InFlight::work() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  waits_beside_a_program = true;
  std::unique_lock lock(mutex_);
  for (;;) {
    to_do_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::shared_ptr<Flight> flight = waiting_.front();
    waiting_.pop_front();
    busy_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      flight->collective();
    } catch (...) {
      error = std::current_exception();
    }
    flight->collective = nullptr;
    lock.lock();
    busy_ = false;
    flight->done = true;
    flight->error = error;
    if (error) {
      for (const std::shared_ptr<Flight>& next : waiting_) {
        next->done = true;
        next->error = error;
      }
      waiting_.clear();
    }
    done_.notify_all();
  }
}

}  // namespace lockstep::collectives
