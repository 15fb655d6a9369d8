#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/data/mixture.h"

namespace lockstep::data {

/// Where each position's record comes from: a pure function of the position, in constant time and memory.
class Order {
 public:
  /// Of sources of these sizes, mixed as said, `epochs` times through or for ever, each time in another order
  /// that the seed decides, or, without a seed, in the source's own. Throws DataError for a source without
  /// records and for 0 epochs.
  Order(std::vector<std::uint64_t> sizes, Mixture mixture, std::optional<std::uint64_t> epochs,
        std::optional<std::uint64_t> seed);

  struct Place {
    std::uint32_t source;
    std::uint64_t epoch, record;
    bool operator==(const Place&) const = default;
  };

  /// Of a position below end().
  Place at(std::uint64_t position) const;

  /// How many positions there are: up to the first at which a source would be read once more than `epochs`
  /// times; 2^62 for ever.
  std::uint64_t end() const { return end_; }

  static constexpr std::uint64_t kForever = std::uint64_t{1} << 62;

 private:
  std::vector<std::uint64_t> sizes_;
  Mixture mixture_;
  std::optional<std::uint64_t> seed_;
  std::uint64_t end_;
};

}  // namespace lockstep::data
