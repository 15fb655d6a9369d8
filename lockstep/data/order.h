// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/data/mixture.h"

namespace lockstep::data {

/// The source and record of each position: a pure function of the position, in constant time and memory.
class Order {
 public:
  /// For sources of these sizes, mixed by the mixture, over `epochs` passes or without a limit. Each pass has
  /// another order, which depends on the seed; without a seed it is the source's own order. Throws DataError
  /// for a source without records and for 0 epochs.
  Order(std::vector<std::uint64_t> sizes, Mixture mixture, std::optional<std::uint64_t> epochs,
        std::optional<std::uint64_t> seed);

  struct Place {
    std::uint32_t source;
    std::uint64_t epoch, record;
    bool operator==(const Place&) const = default;
  };

  /// For a position below end().
  Place at(std::uint64_t position) const;

  /// The number of positions: up to the first at which a source would be read more than `epochs` times; 2^62
  /// if unlimited.
  std::uint64_t end() const { return end_; }

  /// Whether positions had other records in states of format 1: the order of 17 to 128 records has changed.
  bool differs_from_format_1() const;

  static constexpr std::uint64_t kForever = std::uint64_t{1} << 62;

 private:
  std::vector<std::uint64_t> sizes_;
  Mixture mixture_;
  std::optional<std::uint64_t> seed_;
  std::uint64_t end_;
};

}  // namespace lockstep::data
