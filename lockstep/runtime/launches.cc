// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/launches.h"

#include "lockstep/base/fail.h"

namespace lockstep::runtime {

Launches::Launches(std::size_t num_local_devices, std::string process,
                   std::function<void(const std::string&)> on_conflict)
    : process_(std::move(process)), on_conflict_(std::move(on_conflict)), devices_(num_local_devices) {}

Launches::Launch::Launch(Launches& launches, std::span<const int> devices, const What& what)
    : launches_(launches), devices_(devices), what_(what) {
  try {
    for (int device : devices_) {
      auto& word = launches_.devices_[static_cast<std::size_t>(device)];
      std::uintptr_t none = 0;
      if (!word.compare_exchange_strong(none, reinterpret_cast<std::uintptr_t>(this),
                                        std::memory_order_acq_rel)) {
        launches_.take_from_another(word, *this);
      }
      ++taken_;
    }
  } catch (...) {
    leave();
    throw;
  }
}

Launches::Launch::~Launch() { leave(); }

void Launches::Launch::leave() {
  bool awaited = false;
  for (std::size_t i = 0; i < taken_; ++i) {
    auto& word = launches_.devices_[static_cast<std::size_t>(devices_[i])];
    awaited |= (word.exchange(0, std::memory_order_acq_rel) & kAwaited) != 0;
  }
  if (!awaited) return;
  // A thread that has seen this launch under the mutex may still be reading it.
  std::lock_guard lock(launches_.mutex_);
  launches_.left_.notify_all();
}

void Launches::take_from_another(std::atomic<std::uintptr_t>& device, const Launch& launch) {
  std::unique_lock lock(mutex_);
  while (true) {
    std::uintptr_t there = 0;
    if (device.compare_exchange_strong(there, reinterpret_cast<std::uintptr_t>(&launch),
                                       std::memory_order_acq_rel))
      return;
    if (!device.compare_exchange_strong(there, there | kAwaited, std::memory_order_acq_rel)) continue;
    const What& running = reinterpret_cast<const Launch*>(there & ~kAwaited)->what_;
    if (running.spans_processes && launch.what_.spans_processes) {
      const std::string message = describe_conflict(running, launch.what_);
      lock.unlock();
      on_conflict_(message);
      throw DivergenceError(message);
    }
    left_.wait(lock);
  }
}

std::string Launches::describe_conflict(const What& running, const What& coming) const {
  return fmt::format(
      "[jit] on {} one thread launched {} (at {}) while another was in {} (at {}), both on the same device "
      "and with collectives over several processes: nothing says which of the two comes first on the other "
      "processes, so each might get the other's data. Launch them from one thread, or let one thread wait "
      "until the other's call has returned, in an order that is the same on all processes",
      process_, coming.program, coming.site.to_string(), running.program, running.site.to_string());
}

}  // namespace lockstep::runtime
