// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/host.h"

#include <random>

#include "lockstep/coordination/graces.h"

namespace lockstep::coordination {

std::uint64_t random_incarnation() {
  std::random_device random;
  std::uint64_t number = 0;
  while (number == 0) number = (std::uint64_t{random()} << 32) | random();
  return number;
}

Host::Host(const ServerOptions& options)
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

Host::~Host() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  ticker_.join();
  machine_.stop();
}

}  // namespace lockstep::coordination
