// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/host_clock.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::cli {

HostClock::HostClock(const std::vector<ClockExchange>& exchanges) {
  if (exchanges.empty()) return;
  constexpr double kFar = std::numeric_limits<double>::infinity();
  about_ = exchanges.front().received - exchanges.front().asked;
  for (const ClockExchange& each : exchanges) {
    knots_.push_back({each.received, -kFar, static_cast<double>(each.received - each.asked - about_)});
    knots_.push_back({each.replied, static_cast<double>(each.replied - each.heard - about_), kFar});
  }
  std::ranges::sort(knots_, {}, &Knot::at);
  const auto tighten = [](Knot& knot, const Knot& by) {
    const double drift = kDrift * static_cast<double>(std::abs(knot.at - by.at));
    knot.least = std::max(knot.least, by.least - drift);
    knot.most = std::min(knot.most, by.most + drift);
  };
  for (std::size_t i = 1; i < knots_.size(); ++i) tighten(knots_[i], knots_[i - 1]);
  for (std::size_t i = knots_.size() - 1; i > 0; --i) tighten(knots_[i - 1], knots_[i]);
  consistent_ = std::ranges::all_of(knots_, [](const Knot& knot) { return knot.least <= knot.most; });
}

HostClock::Bounds HostClock::ahead_at(std::int64_t host_ns) const {
  if (knots_.empty()) return {};
  const auto after = std::ranges::lower_bound(knots_, host_ns, {}, &Knot::at);
  Bounds bounds{-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  const auto consider = [&](const Knot& knot) {
    const double drift = kDrift * static_cast<double>(std::abs(knot.at - host_ns));
    bounds.least = std::max(bounds.least, knot.least - drift);
    bounds.most = std::min(bounds.most, knot.most + drift);
  };
  if (after != knots_.end()) consider(*after);
  if (after != knots_.begin()) consider(*std::prev(after));
  return bounds;
}

std::int64_t HostClock::to_launcher(std::int64_t host_ns) const {
  const Bounds bounds = ahead_at(host_ns);
  return host_ns - about_ - std::llround((bounds.least + bounds.most) / 2);
}

std::int64_t HostClock::error_ns(std::int64_t host_ns) const {
  const Bounds bounds = ahead_at(host_ns);
  return static_cast<std::int64_t>(std::ceil(std::abs(bounds.most - bounds.least) / 2));
}

}  // namespace lockstep::cli
