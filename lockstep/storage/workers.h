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

/// Threads that work side by side, started when they are first needed. What they do must not wait for what
/// others of them do.
class Workers {
 public:
  explicit Workers(int most);
  ~Workers();  ///< after all that was submitted is done
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

/// Pieces of work that belong together: the first that throws cancels the others. To be used by one thread.
class TaskGroup {
 public:
  explicit TaskGroup(Workers& workers) : workers_(workers) {}
  ~TaskGroup();  ///< cancels what is not done, and waits for it
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  /// Does the work on another thread, soon. `weight` is what wait_until_below counts, such as its bytes.
  void run(std::size_t weight, std::function<void(const Cancellation&)> work);

  /// Blocks until what is not done yet, and `next` on top of it, weighs `most` at most, or nothing is left to
  /// wait for. Throws what a piece of work has thrown.
  void wait_for_room(std::size_t next, std::size_t most);

  /// Blocks until all is done. Throws what a piece of work has thrown.
  void wait();

  /// What is not done fails soon.
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
