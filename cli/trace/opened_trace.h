#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep::cli {

/// A slice of a trace, as one who reads the file puts it together.
struct TraceSlice {
  std::string process, track, name;
  std::int64_t begin = 0, end = 0;
  int depth = 0;
  std::map<std::string, std::string> arguments;
  std::vector<std::string> categories;
  std::vector<std::uint64_t> flows;

  bool is(const std::string& category) const;
};

/// For tests: reads a trace file, and fails the test where it is not well formed.
class OpenedTrace {
 public:
  explicit OpenedTrace(const std::string& bytes);

  /// Those on the track of this name, "PID/THREAD" for a thread's.
  std::vector<TraceSlice> on(const std::string& track) const;

  std::vector<TraceSlice> slices;                 ///< By their begin.
  std::map<std::string, int> pids;                ///< Of processes, by name.
  std::map<std::uint32_t, std::uint64_t> clocks;  ///< Of the snapshot.
};

}  // namespace lockstep::cli
