// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/watch/clock.h"
#include "lockstep/watch/report.h"

namespace lockstep::watch {

/// An event in a trace.
struct EventReport {
  Kind kind = Kind::kNone;
  std::string what, site;
  std::int64_t since_ns = 0, arrived_ns = 0,
               until_ns = 0;  ///< on the machine's monotonic clock; arrived 0: unknown
  std::uint64_t number = 0, operation = 0, mesh = 0;
  int depth = 0, thread = 0;  ///< `thread`: its index in the memory
  int tid = 0;                ///< of the thread that uses this index now; 0: it has ended
  bool finished = true;       ///< false: it has not ended, and `until_ns` is the time of reading
};

/// Reads a recorder's memory. Another process may be writing to it, or may have been killed while it did.
/// Used by one thread.
class Reader {
 public:
  explicit Reader(const Memory& memory);
  ~Reader();

  /// The current activities. `with_logs`: with the last launches over each mesh.
  ProcessReport read(bool with_logs);

  /// The available events since the last call, with times by `clock`. All readers of a trace share one clock:
  /// separate clocks would drift apart by milliseconds a day. `lost` counts events that are no longer
  /// available.
  std::vector<EventReport> events(TickClock& clock, std::uint64_t* lost = nullptr);

  /// The activities of the threads that have not ended, from the outermost to the innermost.
  std::vector<EventReport> unfinished(TickClock& clock);

  /// The pid of the writer in its own pid namespace; 0: none yet.
  int pid() const { return memory_.header.pid.load(std::memory_order_acquire); }

  /// That namespace; 0: unknown.
  std::uint64_t pid_namespace() const { return memory_.header.pid_namespace.load(std::memory_order_relaxed); }

 private:
  struct Usual;
  struct RawThread;

  std::string text(TextId id);
  std::string name(Kind kind, TextId what, std::uint64_t number);
  static RawThread read_raw(const Thread& thread);
  std::uint64_t mesh_of(std::uint32_t place) const;
  ThreadReport read_thread(const Thread& thread, Ticks now);
  MeshReport read_mesh(const MeshLog& mesh, bool with_log);
  void read_groups(ProcessReport& report) const;
  void read_links(ProcessReport& report) const;
  void look_at_durations();

  const Memory& memory_;
  std::unique_ptr<TickClock> clock_;
  std::map<TextId, std::string> texts_;
  std::map<std::pair<TextId, TextId>, Usual> usual_;  // by the name and call site of a launch, or of a wait
                                                      // for it
  std::vector<std::uint64_t> seen_, seen_for_durations_;
};

}  // namespace lockstep::watch
