// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/fingerprint.h"
#include "lockstep/collectives/rounds/algorithm.h"

namespace lockstep::collectives {

/// The bytes of a large all-reduce that a member processes at a time: more on many hosts, where its pieces
/// are small; limited, because each member keeps several.
std::size_t slice_bytes(int hosts);

/// The number of slices of one all-reduce that are in progress at a time.
inline constexpr std::size_t kSlicesInFlight = 3;

/// Smaller messages between hosts take longer than their bytes do.
inline constexpr std::size_t kLeastPiece = 16 << 10;

/// The algorithms of collectives between hosts: the first matching row applies.
class AlgorithmTable {
 public:
  struct Row {
    Kind kind;
    std::size_t most_bytes;  ///< of one part (Exchange::bytes)
    int most_hosts;
    Algorithm algorithm;
    bool widened = false;  ///< only for sums in a wider dtype than that of their terms (partial_type)
  };
  static constexpr std::size_t kAnyBytes = ~std::size_t{0};
  static constexpr int kAnyHosts = 1 << 30;

  /// The built-in rows, preceded by `user`, the value of LOCKSTEP_ALGORITHMS: rows separated by commas,
  /// "all-reduce:64K:8=ring", where the bytes (with K or M) and the hosts are optional:
  /// "all-to-all=pairwise". Throws Error if it does not have this form, or if an algorithm does not exist.
  explicit AlgorithmTable(std::string_view user = {});

  Algorithm choose(Kind kind, std::size_t bytes, int hosts, bool widened = false) const;

  /// The fingerprint of all rows.
  Fingerprint fingerprint() const { return fingerprint_; }

  /// For display: a line for each row.
  std::string to_string() const;

 private:
  std::vector<Row> rows_;
  Fingerprint fingerprint_;
};

}  // namespace lockstep::collectives
