// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/record.h"

namespace lockstep::cli {

std::uint32_t TraceRecord::id_of(const std::string& text) {
  if (text.empty()) return 0;
  const auto [it, is_new] = ids_.try_emplace(text, static_cast<std::uint32_t>(texts_.size()));
  if (is_new) texts_.push_back(text);
  return it->second;
}

void TraceRecord::add(const TraceChunk& chunk) {
  if (chunk.process < 0 || static_cast<std::size_t>(chunk.process) >= processes.size()) return;
  Process& process = processes[chunk.process];
  if (chunk.pid != 0) process.pid = chunk.pid;
  process.lost += chunk.lost;
  events_ += chunk.events.size();
  for (const watch::EventReport& event : chunk.events) {
    if (event.tid != 0) process.tids[event.thread] = event.tid;
    process.events.push_back({.since = event.since_ns,
                              .arrived = event.arrived_ns,
                              .until = event.until_ns,
                              .number = event.number,
                              .operation = event.operation,
                              .mesh = event.mesh,
                              .what = id_of(event.what),
                              .site = id_of(event.site),
                              .kind = static_cast<std::uint8_t>(event.kind),
                              .depth = static_cast<std::uint8_t>(event.depth),
                              .thread = static_cast<std::uint8_t>(event.thread),
                              .finished = event.finished});
  }
}

std::uint64_t TraceRecord::lost() const {
  std::uint64_t lost = 0;
  for (const Process& process : processes) lost += process.lost;
  return lost;
}

}  // namespace lockstep::cli
