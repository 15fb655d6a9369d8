// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

struct PJRT_Api;
struct PJRT_Error;
struct PJRT_Event;

namespace lockstep::pjrt {

/// The end of an event of the plugin, for which several threads may wait.
class Ending {
 public:
  /// Takes the event over. `kept` is held until the event has ended, whoever waits for it.
  static std::shared_ptr<const Ending> of(const PJRT_Api* api, PJRT_Event* event, std::string_view what,
                                          std::shared_ptr<const void> kept = nullptr);

  /// Blocks for at most the timeout; whether it has ended. Throws its error, with `what`, each time.
  bool await_for(std::chrono::milliseconds timeout) const;

 private:
  struct Told;
  explicit Ending(std::string_view what) : what_(what) {}
  void end(const PJRT_Api* api, PJRT_Error* error);

  const std::string what_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool ended_ = false;
  std::exception_ptr error_;
};

}  // namespace lockstep::pjrt
