// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/mixture.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <queue>
#include <string>
#include <tuple>

#include "lockstep/base/fail.h"

namespace lockstep::data {
namespace {

constexpr std::uint64_t kLargestPeriod = std::uint64_t{1} << 17, kRounded = std::uint64_t{1} << 16;

/// The weights as integers with the smallest sum, if they are decimal fractions.
std::optional<std::vector<std::uint32_t>> exact(const std::vector<double>& weights) {
  for (double scale : {1.0, 10.0, 100.0, 1000.0, 10000.0}) {
    std::vector<std::uint64_t> whole;
    std::uint64_t divisor = 0, sum = 0;
    for (double weight : weights) {
      const double scaled = weight * scale, rounded = std::round(scaled);
      if (rounded < 1 || rounded > 1e15 || std::abs(scaled - rounded) > 1e-9 * rounded) break;
      whole.push_back(static_cast<std::uint64_t>(rounded));
      divisor = std::gcd(divisor, whole.back());
    }
    if (whole.size() != weights.size()) continue;
    for (std::uint64_t& weight : whole) sum += weight /= divisor;
    if (sum > kLargestPeriod) return std::nullopt;
    return std::vector<std::uint32_t>(whole.begin(), whole.end());
  }
  return std::nullopt;
}

/// Rounded so that their sum is kRounded, each at least 1: the remainder is distributed to those that
/// rounding changed most.
std::vector<std::uint32_t> rounded(const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::uint32_t> whole;
  std::vector<double> wanted;
  std::int64_t missing = kRounded;
  for (double weight : weights) {
    wanted.push_back(weight / sum * static_cast<double>(kRounded));
    whole.push_back(static_cast<std::uint32_t>(std::max(1.0, std::floor(wanted.back()))));
    missing -= whole.back();
  }
  auto short_by = [&](std::size_t i) { return wanted[i] - static_cast<double>(whole[i]); };
  for (; missing != 0; missing += missing > 0 ? -1 : 1) {
    std::size_t best = whole.size();
    for (std::size_t i = 0; i < whole.size(); ++i) {
      if (missing < 0 && whole[i] == 1) continue;
      if (best == whole.size() || (missing > 0 ? short_by(i) > short_by(best) : short_by(i) < short_by(best)))
        best = i;
    }
    whole[best] += missing > 0 ? 1 : -1;
  }
  std::uint32_t divisor = 0;
  for (std::uint32_t weight : whole) divisor = std::gcd(divisor, weight);
  for (std::uint32_t& weight : whole) weight /= divisor;
  return whole;
}

}  // namespace

Mixture::Mixture(const std::vector<double>& weights) {
  if (weights.empty() || weights.size() > kRounded / 2)
    fail<DataError>("[Mixture] expected 1 to {} sources, got {}", kRounded / 2, weights.size());
  for (double weight : weights) {
    if (!(weight > 0) || !std::isfinite(weight))
      fail<DataError>("[Mixture] expected weights above 0, got {}", weight);
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> shares;
  for (double weight : weights) shares.push_back(weight / sum);
  auto found = exact(weights);
  if (!found) found = exact(shares);
  weights_ = found ? *found : rounded(weights);
  order();
}

// The n-th record of a source (from 0) may be drawn from position n / share on, and must be drawn before (n +
// 1) / share, both rounded outwards. Among the sources that may be drawn, the one with the earliest deadline
// is chosen, which meets all deadlines if any order does (Baruah and others, "Proportionate progress", 1996).
void Mixture::order() {
  const std::uint64_t period = std::accumulate(weights_.begin(), weights_.end(), std::uint64_t{0});
  places_.resize(weights_.size());
  std::vector<std::vector<std::uint32_t>> released(period);
  for (std::uint32_t source = 0; source < weights_.size(); ++source) released[0].push_back(source);
  using Waiting = std::pair<std::uint64_t, std::uint32_t>;  // Deadline, source.
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> waiting;
  for (std::uint64_t position = 0; position < period; ++position) {
    for (std::uint32_t source : released[position]) {
      const std::uint64_t n = places_[source].size(), weight = weights_[source];
      waiting.emplace(((n + 1) * period + weight - 1) / weight, source);
    }
    const std::uint32_t source = waiting.top().second;
    waiting.pop();
    order_.emplace_back(source, static_cast<std::uint32_t>(places_[source].size()));
    places_[source].push_back(static_cast<std::uint32_t>(position));
    const std::uint64_t n = places_[source].size(), weight = weights_[source];
    if (n < weight) released[std::max(position + 1, n * period / weight)].push_back(source);
  }
}

Mixture::Draw Mixture::at(std::uint64_t position) const {
  const auto [source, before] = order_[position % period()];
  return {source, position / period() * weights_[source] + before};
}

std::uint64_t Mixture::position(std::uint32_t source, std::uint64_t count) const {
  const std::uint64_t weight = weights_[source];
  std::uint64_t position;
  if (__builtin_mul_overflow(count / weight, period(), &position) ||
      __builtin_add_overflow(position, places_[source][count % weight], &position))
    return std::numeric_limits<std::uint64_t>::max();
  return position;
}

Fingerprint Mixture::fingerprint() const {
  Fingerprint all = lockstep::fingerprint("Mixture");
  for (std::uint32_t weight : weights_) all = combine(all, weight);
  return all;
}

}  // namespace lockstep::data
