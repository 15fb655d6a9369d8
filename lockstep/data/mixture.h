// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "lockstep/base/fingerprint.h"

namespace lockstep::data {

/// Selects the source of the record at each position. After any number k of positions, the count of source j
/// differs by less than one from k times its share: its weight over the sum of all weights. The order
/// repeats after `period()` positions. Only one period is stored, so that any position is found in constant
/// time.
class Mixture {
 public:
  /// Weights are relative and positive. They are exact if they, or the quotients by their sum, are decimal
  /// fractions of up to four digits whose integer form has a sum of at most 2^17; otherwise they are rounded
  /// to multiples of 2^-16, at least one. Throws DataError if there are none, or one is not positive.
  explicit Mixture(const std::vector<double>& weights);

  /// The weights as integers, without a common divisor; their sum is the period.
  const std::vector<std::uint32_t>& weights() const { return weights_; }
  std::uint64_t period() const { return order_.size(); }

  /// A source, and the number of times that it was drawn before.
  struct Draw {
    std::uint32_t source;
    std::uint64_t count;
    bool operator==(const Draw&) const = default;
  };
  Draw at(std::uint64_t position) const;

  /// The position at which `source` is drawn after it was drawn `count` times; 2^64 - 1 if that is out of
  /// range.
  std::uint64_t position(std::uint32_t source, std::uint64_t count) const;

  Fingerprint fingerprint() const;

 private:
  void order();

  std::vector<std::uint32_t> weights_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> order_;  // the source, and the number of previous
                                                                // draws, at each position of a period
  std::vector<std::vector<std::uint32_t>> places_;              // the positions of each source in a period
};

}  // namespace lockstep::data
