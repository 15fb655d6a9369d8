// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/state/coordinator.h"

#include "lockstep/coordination/protocol/graces.h"

namespace lockstep::coordination {

Coordinator::Coordinator(const ServerOptions& options)
    : moves_by_itself_(options.clock == nullptr),
      machine_(options, options.clock ? *options.clock : Clock::steady(), random_incarnation()),
      ticker_([this] {
        std::unique_lock lock(mutex_);
        auto looked = Clock::steady().now();
        while (!stop_.wait_for(lock, graces::kTick, [this] { return stopping_; })) {
          const auto now = Clock::steady().now();
          if (moves_by_itself_ && now - looked > graces::kStoodStill) {
            machine_.stood_still(now - looked);
          }
          looked = now;
          machine_.tick();
        }
      }) {}

Coordinator::~Coordinator() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  ticker_.join();
  machine_.stop();
}

}  // namespace lockstep::coordination
