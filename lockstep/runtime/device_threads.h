// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::runtime {

/// A thread for each local device except the first, started when first needed. The CPU plugin runs programs
/// in the calling thread, so devices whose programs share a collective must be launched from different
/// threads. A job with one local device has no such threads: waking one costs several times as much as the
/// plugin's launch.
class DeviceThreads {
 public:
  explicit DeviceThreads(std::size_t num_devices);
  ~DeviceThreads();
  DeviceThreads(const DeviceThreads&) = delete;
  DeviceThreads& operator=(const DeviceThreads&) = delete;

  /// Calls work(0), work(1), … for each of the devices at the same time: work(0) on this thread, the others
  /// on their devices' threads. Blocks until all are done. Throws the exception of the first device that
  /// threw one. A device's thread does one piece of work after the other; calls for different devices run
  /// concurrently.
  void run(std::span<const int> devices, const std::function<void(std::size_t)>& work);

 private:
  class Worker;
  std::vector<std::unique_ptr<Worker>> workers_;  ///< by device
};

}  // namespace lockstep::runtime
