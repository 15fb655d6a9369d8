// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "cli/trace/chunk.h"
#include "cli/trace/host_clock.h"

namespace lockstep::cli {

/// Everything that was recorded during a trace.
class TraceRecord {
 public:
  /// As watch::EventReport, in 64 bytes.
  struct Event {
    std::int64_t since = 0, arrived = 0,
                 until = 0;  ///< by the clock of the process's host; arrived 0: unknown
    std::uint64_t number = 0, operation = 0, mesh = 0;
    std::uint32_t what = 0, site = 0;  ///< indices into `text`
    std::uint8_t kind = 0, depth = 0, thread = 0;
    bool finished = true;
  };
  struct Process {
    int pid = 0;
    std::uint64_t lost = 0;
    std::vector<Event> events;
    std::unordered_map<int, int> tids;  ///< by Event::thread
    std::string host;
    std::size_t clock = 0;  ///< index into `clocks`
  };

  explicit TraceRecord(std::size_t num_processes) : processes(num_processes), texts_(1) {}

  void add(const TraceChunk& chunk);
  const std::string& text(std::uint32_t id) const { return texts_[id]; }
  std::uint64_t events() const { return events_; }
  std::uint64_t lost() const;

  std::vector<Process> processes;
  std::vector<HostClock> clocks = {HostClock()};
  bool several_hosts = false;
  std::int64_t begin = 0, end = 0;                        ///< by the launcher's clock
  std::int64_t realtime_at_end = 0, boottime_at_end = 0;  ///< the launcher's other clocks at `end`
  std::vector<std::string> remarks;                       ///< further remarks for readers of the trace

 private:
  std::uint32_t id_of(const std::string& text);

  std::vector<std::string> texts_;
  std::unordered_map<std::string, std::uint32_t> ids_;
  std::uint64_t events_ = 0;
};

}  // namespace lockstep::cli
