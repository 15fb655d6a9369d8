#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/watch/clock.h"
#include "lockstep/watch/report.h"

namespace lockstep::watch {

/// An event, as a trace shows it.
struct EventReport {
  Kind kind = Kind::kNone;
  std::string what, site;
  std::int64_t since_ns = 0, arrived_ns = 0,
               until_ns = 0;  ///< Of the machine's monotonic clock; arrived 0: unknown.
  std::uint64_t number = 0, operation = 0, mesh = 0;
  int depth = 0, thread = 0;  ///< `thread`: the place in the memory.
  int tid = 0;                ///< Of the thread that has this place now; 0: it has ended.
  bool finished = true;       ///< False: it goes on, and `until_ns` is when that was seen.
};

/// Reads a recorder's memory, which another process may write meanwhile, or may have been killed while it
/// did. Used by one thread.
class Reader {
 public:
  explicit Reader(const Memory& memory);
  ~Reader();

  /// What it does now. `with_logs`: with the meshes' last launches.
  ProcessReport read(bool with_logs);

  /// The events since the last call that are still there, with times by `clock`, which all readers of a trace
  /// share: a clock of its own for each would let them drift apart by milliseconds a day. `lost` counts
  /// events that are not there any longer.
  std::vector<EventReport> events(TickClock& clock, std::uint64_t* lost = nullptr);

  /// What the threads are in the midst of, from the outermost to the innermost.
  std::vector<EventReport> unfinished(TickClock& clock);

  /// Pid of who writes; 0: nobody yet.
  int pid() const { return memory_.header.pid.load(std::memory_order_acquire); }

 private:
  struct Usual;
  struct RawThread;

  std::string text(TextId id);
  static RawThread read_raw(const Thread& thread);
  std::uint64_t mesh_of(std::uint32_t place) const;
  ThreadReport read_thread(const Thread& thread, Ticks now);
  MeshReport read_mesh(const MeshLog& mesh, bool with_log);
  void look_at_durations();

  const Memory& memory_;
  std::unique_ptr<TickClock> clock_;
  std::map<TextId, std::string> texts_;
  std::map<std::pair<TextId, TextId>, Usual> usual_;  // of the name and place of a launch, or a wait for it
  std::vector<std::uint64_t> seen_, seen_for_durations_;
};

}  // namespace lockstep::watch
