#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/watch/diagnosis.h"
#include "lockstep/watch/report.h"

namespace lockstep::cli {

/// What a process is at, in a word.
enum class RowState {
  kNotStarted,
  kStarting,   ///< It runs, but is not yet a member of the job.
  kWaits,      ///< For other processes, or for a key that another one sets.
  kTransfers,  ///< In a collective that all have come to.
  kComputes,
  kCompiles,  ///< Or traces.
  kInput,
  kCheckpoint,
  kPhase,  ///< Of the user's own.
  kOwnCode,
  kStopped,  ///< By a signal or a debugger.
  kEnded,
  kFailed,
};
std::string_view name_of(RowState state);
/// kNotStarted where no state has this name.
RowState row_state_of(std::string_view name);

/// Seconds, or parts of a time. A process with several devices waits on each of them: these are their sums,
/// or, as parts, at most 1.
struct Times {
  double wait = 0, transfer = 0, launch = 0, input = 0;
};

/// A process, as people look at it.
struct ProcessRow {
  int process = 0;
  std::string host;
  int pid = 0;
  std::int64_t step = -1;  ///< -1: none is known.
  std::uint64_t launches = 0, collectives = 0;
  RowState state = RowState::kNotStarted;
  std::string words =
      "not started";          ///< "waits in psum f32[4] for process 2"; the same for all who do the same.
  std::string detail;         ///< "sleeps (clock_nanosleep)"; may be empty.
  std::string site;           ///< "train.cc:42"; may be empty.
  double seconds = -1;        ///< In this state; -1: unknown.
  Times in_all;               ///< Seconds, with what has not ended yet.
  Times share, recent_share;  ///< Of its time, since it was started and in the last seconds.
  double age_seconds = 0;
  double cpu_share = 0;  ///< Of one core.
  std::uint64_t resident_bytes = 0;
  int restarts = 0;
  std::string metrics;  ///< JSON, or empty.
};

/// Fills in all that one report tells; the shares but for `recent_share`. `devices`: of a process, where it
/// is known.
ProcessRow row_of(const watch::ProcessReport& report, int devices = 1);

/// A process that the others wait for again and again.
struct Straggler {
  int process = 0;
  double wait_share = 0, others_wait_share = 0;  ///< Its own, and the median of the others'.
};

/// Those that wait much less than the others, by what they did in the last seconds, or in all where nobody
/// has waited in these. The one that waits least is the first. At most `most`.
std::vector<Straggler> find_stragglers(std::span<const ProcessRow> rows, std::size_t most = 8);

/// Something that the launcher has said.
struct JobEvent {
  double time = 0;  ///< Seconds since 1970.
  std::string text;
};

/// A job at one moment.
struct JobView {
  std::string job_id, command;
  std::string host;  ///< The launcher's.
  int pid = 0;       ///< The launcher's.
  int attempt = 0;
  std::string state;             ///< "waiting for hosts", "running", "ending", "waiting to restart"
  double started = 0, time = 0;  ///< Seconds since 1970: when the launcher started, and of this view.
  std::string failure;           ///< What came first, once something has failed.
  std::vector<ProcessRow> processes;
  std::vector<watch::Stall> stalls;  ///< Of at least some seconds.
  std::uint64_t stalls_in_all = 0;   ///< Of 10 s and more, since the launcher started.
  std::vector<Straggler> stragglers;
  std::vector<JobEvent> events;  ///< The last ones, the oldest first.
};

/// The line that the launcher says of a stall.
std::string describe(const watch::Stall& stall, const JobView& view);

/// "350 ms", "12 s", "3 min 5 s", "2 h 10 min", "4 d 3 h".
std::string describe_duration(double seconds);

}  // namespace lockstep::cli
