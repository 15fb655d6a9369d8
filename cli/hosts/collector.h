// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/hosts/process_host.h"
#include "cli/trace/chunk.h"
#include "lockstep/watch/reader.h"
#include "lockstep/watch/report.h"

namespace lockstep::cli {

/// Observes the processes of this host from outside, by reading their recorders and /proc, so that stopped
/// and killed processes are observed, too. Used by one thread.
class Collector {
 public:
  static constexpr std::chrono::milliseconds kInterval{1000};

  Collector();
  ~Collector();
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  /// Creates the memory of a process's recorder. Returns a descriptor for the process to inherit, which the
  /// caller closes; -1 if there is no such memory: then the process is only observed through /proc.
  int add(int process);

  /// The process was started.
  void started(int process, pid_t pid);

  /// The pid of the process that uses Lockstep: the one that was started, or, if that is a script, one that
  /// it started, perhaps in another pid namespace. If that is not found, the one that was started.
  pid_t pid(int process);

  /// When the next `look` is due.
  Steady::time_point next_look() const { return next_look_; }

  /// A report of each process that has not ended. `with_logs` is as in Reader::read.
  std::vector<watch::ProcessReport> look(bool with_logs);

  /// The last report of a process that has ended, with its logs.
  watch::ProcessReport last_words(int process, const std::string& how);

  /// The events of a process since the last call, oldest first, at most as many as its memory keeps; with
  /// `unfinished`, followed by its current activities. Times are by `clock`.
  TraceChunk events(int process, watch::TickClock& clock, bool unfinished = false);

 private:
  struct Watched;
  watch::ProcessReport report(int process, Watched& watched, bool with_logs);

  std::map<int, std::unique_ptr<Watched>> watched_;
  Steady::time_point next_look_ = Steady::now() + kInterval;
};

}  // namespace lockstep::cli
