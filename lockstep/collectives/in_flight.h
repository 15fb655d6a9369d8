// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "lockstep/base/fingerprint.h"

namespace lockstep::collectives {

/// The collectives that one device has started and not yet awaited. A thread, started with the first of them,
/// does one after the other, so that the device's order of collectives stays that of its programs. All
/// methods may be called from any thread.
class InFlight {
 public:
  using Key = std::pair<Fingerprint, std::int64_t>;  ///< program, number of the collective

  InFlight() = default;
  ~InFlight();
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  /// Does `collective` after those started before, and returns. Throws Error if one with this key is in
  /// flight.
  void start(const Key& key, std::function<void()> collective);

  /// Blocks until the one with this key is done. Throws its exception, or that of one before it; then no
  /// other is in flight any more, and none uses its operands. Throws Error if there is none.
  void finish(const Key& key);

  /// Blocks until no collective is being done or waits to be.
  void drain();

 private:
  struct Flight {
    std::function<void()> collective;
    bool done = false;
    std::exception_ptr error;
  };

  void work();

  std::mutex mutex_;
  std::condition_variable to_do_, done_;
  std::map<Key, std::shared_ptr<Flight>> all_;   ///< until they are awaited
  std::deque<std::shared_ptr<Flight>> waiting_;  ///< for the thread
  bool busy_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace lockstep::collectives
