// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "lockstep/coordination/state_machine.h"

namespace lockstep::coordination {

/// A state machine with a random incarnation and a thread that ticks it ten times a second.
class Host {
 public:
  /// Throws InitializationError as StateMachine does.
  explicit Host(const ServerOptions& options);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  StateMachine& machine() { return machine_; }

 private:
  const bool moves_by_itself_;  ///< false if a test controls the clock
  StateMachine machine_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread ticker_;
};

/// A random number, never 0.
std::uint64_t random_incarnation();

}  // namespace lockstep::coordination
