// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep::cli {

/// A slice of a trace, as assembled by a reader of the file.
struct TraceSlice {
  std::string process, track, name;
  std::int64_t begin = 0, end = 0;
  int depth = 0;
  std::map<std::string, std::string> arguments;
  std::vector<std::string> categories;
  std::vector<std::uint64_t> flows;

  bool is(const std::string& category) const;
};

/// For tests: reads a trace file, and fails the test if it is not well formed.
class OpenedTrace {
 public:
  explicit OpenedTrace(const std::string& bytes);

  /// The slices on the track with this name, for a thread "PID/THREAD".
  std::vector<TraceSlice> on(const std::string& track) const;

  std::vector<TraceSlice> slices;                 ///< ordered by their begin
  std::map<std::string, int> pids;                ///< of processes, by name
  std::map<std::uint32_t, std::uint64_t> clocks;  ///< of the snapshot
};

}  // namespace lockstep::cli
