// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "lockstep/coordination/state/state_machine.h"

namespace lockstep::coordination {

/// A coordinator without its port: a state machine with a random incarnation and a thread that ticks it ten
/// times a second.
class Coordinator {
 public:
  /// Throws InitializationError as StateMachine does.
  explicit Coordinator(const ServerOptions& options);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  StateMachine& machine() { return machine_; }

 private:
  const bool moves_by_itself_;  ///< false if a test controls the clock
  StateMachine machine_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread ticker_;
};

}  // namespace lockstep::coordination
