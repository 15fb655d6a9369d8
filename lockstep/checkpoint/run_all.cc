// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/run_all.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::checkpoint {

void run_all(std::size_t count, const std::function<void(std::size_t)>& task) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  auto work = [&] {
    for (std::size_t i; (i = next++) < count;) {
      try {
        task(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next = count;
      }
    }
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < std::min(kTasksAtATime, count); ++i) threads.emplace_back(work);
  work();
  threads.clear();
  if (error) std::rethrow_exception(error);
}

}  // namespace lockstep::checkpoint
