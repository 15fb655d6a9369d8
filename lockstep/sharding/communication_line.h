// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/call_site.h"

namespace lockstep::sharding {

/// One collective of a partitioned program.
struct CommunicationLine {
  std::size_t equation = 0;  ///< its position in the program, or that of the outermost equation that contains
                             ///< it
  std::string kind;          ///< "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "permute"
  std::vector<std::string> axes;  ///< the mesh axes over which it runs
  std::int64_t num_devices = 1;   ///< in one group
  std::int64_t bytes = 0;         ///< the larger of the bytes that one device sends and receives
  CallSite site;                  ///< the user's line that caused it

  /// How often it runs: in loops, the product of their numbers of steps. nullopt if the number depends on
  /// values; it then counts once.
  std::optional<std::int64_t> times = 1;
  std::int64_t total_bytes() const { return bytes * times.value_or(1); }

  /// Why it is needed: the value, its split before and after, and the cost of the alternative. Empty for
  /// collectives that the program itself contains, in shard_map.
  std::string reason = {};

  /// "all-reduce 1.0 MiB over data (4 devices) at train.cc:42"; in a loop followed by ", 10 times" or ", each
  /// time".
  std::string to_string() const;
};

/// Each collective on a line, and its reason on the next line.
std::string explain(const std::vector<CommunicationLine>& lines);

/// "96 B", "1.5 KiB".
std::string bytes_text(std::int64_t bytes);

}  // namespace lockstep::sharding
