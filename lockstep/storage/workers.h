// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "lockstep/storage/backoff.h"

namespace lockstep::storage {

/// Concurrent threads, started when first needed. Their work must not wait for other work of these threads.
class Workers {
 public:
  explicit Workers(int most);
  ~Workers();  ///< after all submitted work is done
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// `work` must not throw.
  void submit(std::function<void()> work);

 private:
  void run();

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  std::size_t idle_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

/// A group of tasks: the first one that throws cancels the others. Use it from one thread.
class TaskGroup {
 public:
  explicit TaskGroup(Workers& workers) : workers_(workers) {}
  ~TaskGroup();  ///< cancels tasks that are not done, and waits for them
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  /// Runs the work on another thread, soon. `weight` is counted by wait_for_room, such as its bytes.
  void run(std::size_t weight, std::function<void(const Cancellation&)> work);

  /// Blocks until the weight of the tasks that are not done, plus `next`, is at most `most`, or no task is
  /// left. Throws the exception of a task.
  void wait_for_room(std::size_t next, std::size_t most);

  /// Blocks until all tasks are done. Throws the exception of a task.
  void wait();

  /// Tasks that are not done fail soon.
  void cancel() { cancellation_.cancel(); }

 private:
  Workers& workers_;
  Cancellation cancellation_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t under_way_ = 0, weight_ = 0;
  std::exception_ptr first_error_;
};

}  // namespace lockstep::storage
