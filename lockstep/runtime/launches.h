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

/// The order of this process's launches of programs with collectives: of each local device, the launch that
/// it is in. Two of them at a time on one device would take each other's data. All methods may be called from
/// any thread.
class Launches {
 public:
  /// `process` is for messages: "process 0 of 2". `on_conflict` is called before a conflict's DivergenceError
  /// is thrown, with its message.
  Launches(std::size_t num_local_devices, std::string process,
           std::function<void(const std::string& message)> on_conflict);
  Launches(const Launches&) = delete;
  Launches& operator=(const Launches&) = delete;

  struct What {
    std::string_view program;
    CallSite site;
    bool spans_processes = false;
  };

  /// A launch: while it stands its devices are in no other. Takes an atomic exchange of each device where
  /// nobody else is there.
  class Launch {
   public:
    /// `devices`, by their local ordinals, must ascend. Blocks until they are in no other launch. But where
    /// both launches span processes nothing says which of them comes first on the other processes: that
    /// throws DivergenceError, which names the places of both.
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
    std::size_t taken_ = 0;  ///< so many of the devices
  };

 private:
  /// The lowest bit of a device's word: somebody waits for the launch that the rest of it points to. As long
  /// as the mutex is held after it was set, that launch is there.
  static constexpr std::uintptr_t kAwaited = 1;

  void take_from_another(std::atomic<std::uintptr_t>& device, const Launch& launch);
  std::string describe_conflict(const What& running, const What& coming) const;

  const std::string process_;
  const std::function<void(const std::string&)> on_conflict_;
  std::vector<std::atomic<std::uintptr_t>> devices_;  ///< of each, its launch; 0 where it is in none
  std::mutex mutex_;                                  ///< of those who wait
  std::condition_variable left_;
};

}  // namespace lockstep::runtime
