#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/process_host.h"
#include "cli/trace/chunk.h"
#include "lockstep/watch/reader.h"
#include "lockstep/watch/report.h"

namespace lockstep::cli {

/// What the processes of this host do, from outside: it reads their recorders and /proc, and needs nothing of
/// them, so that it sees stopped and killed ones too. Used by one thread.
class Collector {
 public:
  static constexpr std::chrono::milliseconds kInterval{1000};

  Collector();
  ~Collector();
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  /// Makes the memory of a process's recorder. Gives a descriptor for the process to inherit, which the
  /// caller closes; -1 where there is no such memory to be had, and the process is seen by /proc only.
  int add(int process);

  /// The process has been started.
  void started(int process, pid_t pid);

  /// The pid of who uses Lockstep there: the one that was started, or, where that is a script, one that it
  /// started.
  pid_t pid(int process) const;

  /// When `look` is due.
  Steady::time_point next_look() const { return next_look_; }

  /// A report of each process that has not ended. `with_logs` as Reader::read.
  std::vector<watch::ProcessReport> look(bool with_logs);

  /// The last report of a process, with its logs; it has ended.
  watch::ProcessReport last_words(int process, const std::string& how);

  /// The events of a process since the last call, oldest first, at most what its memory keeps; with
  /// `unfinished`, what it is in the midst of comes last. Times are by `clock`.
  TraceChunk events(int process, watch::TickClock& clock, bool unfinished = false);

 private:
  struct Watched;
  watch::ProcessReport report(int process, Watched& watched, bool with_logs);

  std::map<int, std::unique_ptr<Watched>> watched_;
  Steady::time_point next_look_ = Steady::now() + kInterval;
};

}  // namespace lockstep::cli
