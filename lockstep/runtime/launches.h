// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/call_site.h"

namespace lockstep::runtime {

/// The order of this process's launches of programs with collectives: for each local device, its current
/// launch. Two concurrent launches on one device would receive each other's data. All methods may be called
/// from any thread.
class Launches {
 public:
  /// `process` is for messages: "process 0 of 2". `on_conflict` is called with the message before the
  /// DivergenceError of a conflict is thrown.
  Launches(std::size_t num_local_devices, std::string process,
           std::function<void(const std::string& message)> on_conflict);
  Launches(const Launches&) = delete;
  Launches& operator=(const Launches&) = delete;

  struct What {
    std::string_view program;
    CallSite site;
    bool spans_processes = false;
  };

  /// A launch: as long as it exists its devices are in no other launch. Costs one atomic exchange for each
  /// device if there is no contention.
  class Launch {
   public:
    /// `devices` are local ordinals, ascending. Blocks until they are in no other launch. But if both
    /// launches span processes, their order on the other processes is undefined: then it throws a
    /// DivergenceError, which names the lines of both.
    Launch(Launches& launches, std::span<const int> devices, const What& what);
    ~Launch();
    Launch(const Launch&) = delete;
    Launch& operator=(const Launch&) = delete;

   private:
    friend class Launches;
    void leave();

    Launches& launches_;
    const std::span<const int> devices_;
    const What what_;
    std::size_t taken_ = 0;  ///< how many of the devices it holds
  };

 private:
  /// The lowest bit of a device's word: another thread waits for the launch to which the rest of the word
  /// points. While the mutex is held after setting it, that launch exists.
  static constexpr std::uintptr_t kAwaited = 1;

  void take_from_another(std::atomic<std::uintptr_t>& device, const Launch& launch);
  std::string describe_conflict(const What& running, const What& coming) const;

  const std::string process_;
  const std::function<void(const std::string&)> on_conflict_;
  std::vector<std::atomic<std::uintptr_t>> devices_;  ///< the launch of each device; 0 if there is none
  std::mutex mutex_;                                  ///< for waiting threads
  std::condition_variable left_;
};

}  // namespace lockstep::runtime
