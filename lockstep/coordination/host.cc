#include "lockstep/coordination/host.h"

#include <random>

namespace lockstep::coordination {

std::uint64_t random_incarnation() {
  std::random_device random;
  std::uint64_t number = 0;
  while (number == 0) number = (std::uint64_t{random()} << 32) | random();
  return number;
}

Host::Host(const ServerOptions& options)
    : machine_(options, options.clock ? *options.clock : Clock::steady(), random_incarnation()),
      ticker_([this] {
        std::unique_lock lock(mutex_);
        while (!stop_.wait_for(lock, std::chrono::milliseconds(100), [this] { return stopping_; })) {
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
