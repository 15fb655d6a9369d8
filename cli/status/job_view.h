// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/watch/diagnosis.h"
#include "lockstep/watch/report.h"

namespace lockstep::cli {

/// The state of a process.
enum class RowState {
  kNotStarted,
  kStarting,   ///< it runs, but has not joined the job yet
  kWaits,      ///< for other processes, or for a key that another process sets
  kTransfers,  ///< in a collective at which all have arrived
  kComputes,
  kCompiles,  ///< or traces
  kInput,
  kCheckpoint,
  kPhase,  ///< named by the user
  kIdle,   ///< in a phase that may last as long as it likes
  kOwnCode,
  kStopped,  ///< by a signal or a debugger
  kEnded,
  kFailed,
};
std::string_view name_of(RowState state);
/// kNotStarted if no state has this name.
RowState row_state_of(std::string_view name);

/// Seconds, or fractions of a time. A process with several devices waits on each of them: these are the sums,
/// or, as fractions, at most 1.
struct Times {
  double wait = 0, transfer = 0, launch = 0, input = 0;
};

/// The displayed information about a process.
struct ProcessRow {
  int process = 0;
  std::string host;
  int pid = 0;
  std::int64_t step = -1;  ///< -1: unknown
  std::uint64_t launches = 0, collectives = 0;
  RowState state = RowState::kNotStarted;
  std::string words = "not started";  ///< "waits in psum f32[4] for process 2"; the same for all processes
                                      ///< with the same activity
  std::string detail;                 ///< "sleeps (clock_nanosleep)"; may be empty
  std::string site;                   ///< "train.cc:42"; may be empty
  double seconds = -1;                ///< in this state; -1: unknown
  Times in_all;                       ///< in seconds, including current activities
  Times share, recent_share;          ///< of its time, since its start and in the last seconds
  double age_seconds = 0;
  double cpu_share = 0;            ///< of one core
  std::uint64_t memory_bytes = 0;  ///< see ProportionalMemory
  std::vector<watch::DeviceMemoryReport> device_memory;
  int restarts = 0;
  std::string metrics;  ///< JSON, or empty
};

/// Sets everything that follows from one report; of the shares all but `recent_share`. `devices` is the
/// process's number of devices, if known.
ProcessRow row_of(const watch::ProcessReport& report, int devices = 1);

/// A process for which the others wait repeatedly.
struct Straggler {
  int process = 0;
  double wait_share = 0, others_wait_share = 0;  ///< its own, and the median of the others'
};

/// Processes that wait much less than the others, in the last seconds, or in total if no process has waited
/// in these. The one that waits least comes first. At most `most`.
std::vector<Straggler> find_stragglers(std::span<const ProcessRow> rows, std::size_t most = 8);

/// A message of the launcher.
struct JobEvent {
  double time = 0;  ///< seconds since 1970
  std::string text;
};

/// A job at one moment.
struct JobView {
  std::string job_id, command;
  std::string host;  ///< the launcher's
  int pid = 0;       ///< the launcher's
  int attempt = 0;
  std::string state;             ///< "waiting for hosts", "running", "ending", "waiting to restart"
  double started = 0, time = 0;  ///< seconds since 1970: the start of the launcher, and of this view
  std::string failure;           ///< the first failure, if there is one
  std::vector<ProcessRow> processes;
  std::vector<watch::Stall> stalls;  ///< those of at least some seconds
  std::uint64_t stalls_in_all = 0;   ///< stalls of at least 10 s since the launcher started
  std::vector<Straggler> stragglers;
  std::vector<JobEvent> events;  ///< the last ones, oldest first
};

/// The launcher's line about a stall.
std::string describe(const watch::Stall& stall, const JobView& view);

/// "350 ms", "12 s", "3 min 5 s", "2 h 10 min", "4 d 3 h".
std::string describe_duration(double seconds);

}  // namespace lockstep::cli
