// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <utility>

#include "lockstep/coordination/state/state_machine.h"

namespace lockstep::coordination {

/// A critical section of the state machine. At its end the lock is released, and then all answers that became
/// due are sent; those that depend on a change of state come last.
class StateMachine::Section {
 public:
  explicit Section(StateMachine& machine)
      : machine_(machine), lock_(machine.mutex_), version_(machine.version_) {}

  ~Section() {
    if (machine_.version_ != version_) {
      machine_.answer_alive_rounds(answers);
      machine_.answer_watchers(answers);
    }
    lock_.unlock();
    for (auto& answer : answers) answer();
  }

  template <class Callback, class... Value>
  void answer(Callback done, Status status, Value... value) {
    answers.push_back([done = std::move(done), status = std::move(status), ... value = std::move(value)] {
      done(status, value...);
    });
  }

  Answers answers;

 private:
  StateMachine& machine_;
  std::unique_lock<std::mutex> lock_;
  const std::int64_t version_;
};

}  // namespace lockstep::coordination
