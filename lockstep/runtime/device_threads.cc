#include "lockstep/runtime/device_threads.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::runtime {

/// Does one piece of work at a time on a thread of its own.
class DeviceThreads::Worker {
 public:
  Worker() : thread_([this] { loop(); }) {}
  ~Worker() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void start(std::function<void()> work) {
    {
      std::lock_guard lock(mutex_);
      work_ = std::move(work);
      busy_ = true;
    }
    changed_.notify_all();
  }

  std::exception_ptr wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !busy_; });
    return std::exchange(error_, nullptr);
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return busy_ || stop_; });
      if (stop_) return;
      auto work = std::move(work_);
      lock.unlock();
      std::exception_ptr error;
      try {
        work();
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      error_ = error;
      busy_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  std::exception_ptr error_;
  bool busy_ = false, stop_ = false;
  std::thread thread_;  // last: it uses the others
};

struct DeviceThreads::State {
  std::mutex mutex;
  std::vector<std::unique_ptr<Worker>> workers;
};

DeviceThreads::DeviceThreads(std::size_t num_devices) : state_(std::make_unique<State>()) {
  for (std::size_t i = 1; i < num_devices; ++i) state_->workers.push_back(std::make_unique<Worker>());
}

DeviceThreads::~DeviceThreads() = default;

void DeviceThreads::run(std::size_t num_devices, const std::function<void(std::size_t)>& work) {
  if (num_devices == 1) return work(0);
  std::lock_guard lock(state_->mutex);
  for (std::size_t i = 1; i < num_devices; ++i) {
    state_->workers[i - 1]->start([&work, i] { work(i); });
  }
  std::exception_ptr first;
  try {
    work(0);
  } catch (...) {
    first = std::current_exception();
  }
  for (std::size_t i = 1; i < num_devices; ++i) {
    std::exception_ptr error = state_->workers[i - 1]->wait();
    if (!first) first = error;
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace lockstep::runtime
