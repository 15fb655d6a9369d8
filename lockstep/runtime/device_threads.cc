// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/device_threads.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace lockstep::runtime {

/// Does one piece of work after the other on a thread of its own.
class DeviceThreads::Worker {
 public:
  struct Task {
    const std::function<void(std::size_t)>* work;
    std::size_t index;
    bool done = false;
    std::exception_ptr error;
  };

  ~Worker() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  /// The task must stay until it has been waited for.
  void start(Task& task) {
    {
      std::lock_guard lock(mutex_);
      if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
      tasks_.push_back(&task);
    }
    changed_.notify_all();
  }

  void wait(const Task& task) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return task.done; });
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !tasks_.empty() || stop_; });
      if (stop_) return;
      Task& task = *tasks_.front();
      tasks_.pop_front();
      lock.unlock();
      try {
        (*task.work)(task.index);
      } catch (...) {
        task.error = std::current_exception();
      }
      lock.lock();
      task.done = true;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task*> tasks_;
  bool stop_ = false;
  std::thread thread_;
};

DeviceThreads::DeviceThreads(std::size_t num_devices) {
  for (std::size_t i = 0; i < num_devices; ++i) workers_.push_back(std::make_unique<Worker>());
}

DeviceThreads::~DeviceThreads() = default;

void DeviceThreads::run(std::span<const int> devices, const std::function<void(std::size_t)>& work) {
  if (devices.size() == 1) return work(0);
  const auto worker = [&](std::size_t i) -> Worker& {
    return *workers_[static_cast<std::size_t>(devices[i])];
  };
  std::vector<Worker::Task> tasks(devices.size());
  for (std::size_t i = 1; i < devices.size(); ++i) {
    tasks[i].work = &work;
    tasks[i].index = i;
    worker(i).start(tasks[i]);
  }
  try {
    work(0);
  } catch (...) {
    tasks[0].error = std::current_exception();
  }
  for (std::size_t i = 1; i < devices.size(); ++i) worker(i).wait(tasks[i]);
  for (const Worker::Task& task : tasks)
    if (task.error) std::rethrow_exception(task.error);
}

}  // namespace lockstep::runtime
