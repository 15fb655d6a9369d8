// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/clock.h"

#include <chrono>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace lockstep::watch {
namespace {

constexpr std::uint64_t kFirstCalibration = 20'000'000, kEnough = 100'000'000'000;  // ns

}  // namespace

Clock machine_clock() {
#if defined(__x86_64__)
  // "Invariant TSC": one rate in all power states (Intel's manual, volume 3B, section 18.17).
  static const bool invariant = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1U << 8)) != 0;
  }();
  if (invariant) return Clock::kTsc;
#endif
  return Clock::kMonotonicNs;
}

TickClock::TickClock(Clock clock) : clock_(clock), first_(read()), last_(first_.other) {}

Moment<Ticks, Ticks> TickClock::read() const {
  return read_together(monotonic_ns, [this] { return now(); });
}

void TickClock::calibrate() {
  if (clock_ == Clock::kMonotonicNs || last_ - first_.other > kEnough) return;
  const std::uint64_t passed = monotonic_ns() - first_.time;
  if (passed < kFirstCalibration)
    std::this_thread::sleep_for(std::chrono::nanoseconds(kFirstCalibration - passed));
  const auto [ns, at] = read();
  last_ = at;
  ns_per_tick_ = static_cast<double>(ns - first_.time) / static_cast<double>(at - first_.other);
}

double TickClock::seconds(Ticks from, Ticks until) {
  calibrate();
  return until <= from ? 0 : static_cast<double>(until - from) * ns_per_tick_ * 1e-9;
}

std::int64_t TickClock::to_monotonic_ns(Ticks at) {
  // Not at each call: times that are converted with the same rate keep their order.
  if (last_ == first_.other) calibrate();
  const auto passed = static_cast<double>(static_cast<std::int64_t>(at - first_.other));
  return static_cast<std::int64_t>(first_.time) + static_cast<std::int64_t>(passed * ns_per_tick_);
}

}  // namespace lockstep::watch
