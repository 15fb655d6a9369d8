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
  std::size_t equation = 0;  ///< its place in the program, or that of the outermost equation that holds it
  std::string kind;          ///< "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "permute"
  std::vector<std::string> axes;  ///< over which devices it runs
  std::int64_t num_devices = 1;   ///< in one group
  std::int64_t bytes = 0;         ///< of the larger of what one device gives and what it gets
  CallSite site;                  ///< the user's line that caused it

  /// How often it runs: within loops, the product of their steps. None where values decide: it counts once.
  std::optional<std::int64_t> times = 1;
  std::int64_t total_bytes() const { return bytes * times.value_or(1); }

  /// Why it is there: the value, from which split to which, and what the other way would have taken. Empty of
  /// what the program itself asks for, in shard_map.
  std::string reason = {};

  /// "all-reduce 1.0 MiB over data (4 devices) at train.cc:42"; in a loop with ", 10 times" or ", each time"
  /// behind.
  std::string to_string() const;
};

/// Each collective on a line, and its reason on another.
std::string explain(const std::vector<CommunicationLine>& lines);

/// "96 B", "1.5 KiB".
std::string bytes_text(std::int64_t bytes);

}  // namespace lockstep::sharding
