#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/fingerprint.h"
#include "lockstep/collectives/rounds/algorithm.h"

namespace lockstep::collectives {

/// What a member carries of a large all-reduce at a time, in bytes: more on many hosts, whose pieces of it
/// are small; bounded, for each member keeps several.
std::size_t slice_bytes(int hosts);

/// So many slices of one all-reduce are on their way at a time.
inline constexpr std::size_t kSlicesInFlight = 3;

/// Smaller messages between hosts take longer than their bytes do.
inline constexpr std::size_t kLeastPiece = 16 << 10;

/// By which way collectives between hosts go: the first row that fits.
class WayTable {
 public:
  struct Row {
    Kind kind;
    std::size_t most_bytes;  ///< Of one part (Exchange::bytes).
    int most_hosts;
    Way way;
  };
  static constexpr std::size_t kAnyBytes = ~std::size_t{0};
  static constexpr int kAnyHosts = 1 << 30;

  /// The built-in rows. `user`, what LOCKSTEP_ALGORITHMS says, stands before them: rows divided by commas,
  /// "all-reduce:64K:8=ring", of which the bytes (with K or M) and the hosts may be left out:
  /// "all-to-all=pairwise". Throws Error where it is not of this form, or where there is no such algorithm.
  explicit WayTable(std::string_view user = {});

  Way choose(Kind kind, std::size_t bytes, int hosts) const;

  /// Of all rows.
  Fingerprint fingerprint() const { return fingerprint_; }

  /// For people: a line for each row.
  std::string to_string() const;

 private:
  std::vector<Row> rows_;
  Fingerprint fingerprint_;
};

}  // namespace lockstep::collectives
