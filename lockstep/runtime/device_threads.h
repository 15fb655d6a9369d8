#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace lockstep::runtime {

/// A thread for each local device but the first, whose work the caller does. The CPU plugin runs programs in
/// the calling thread, so devices whose programs meet in a collective must be launched from different
/// threads. A job with one local device has no threads at all: waking one costs several times the plugin's
/// launch.
class DeviceThreads {
 public:
  explicit DeviceThreads(std::size_t num_devices);
  ~DeviceThreads();
  DeviceThreads(const DeviceThreads&) = delete;
  DeviceThreads& operator=(const DeviceThreads&) = delete;

  /// Calls work(0), …, work(num_devices - 1) at the same time, work(0) on this thread, and blocks until all
  /// are done. Throws the exception of the lowest device that threw one. One call at a time; others wait.
  void run(std::size_t num_devices, const std::function<void(std::size_t)>& work);

 private:
  class Worker;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::runtime
