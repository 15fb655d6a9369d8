// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/run/job_hosts.h"
#include "cli/trace/record.h"
#include "cli/trace/trace_file.h"

namespace lockstep::cli {

/// A request for a trace.
struct TraceRequest {
  std::shared_ptr<TraceFile> file;
  std::optional<double> seconds;  ///< nullopt: until the job ends

  /// Called once with a line about the result; `good` if the file is written.
  std::function<void(bool good, const std::string& line)> done;
};

/// Takes traces of a running job, one at a time: the activities of all processes are written to one Perfetto
/// file. While no trace is taken, nothing is read or sent. Nothing blocks except the first 20 ms of a trace,
/// in which the processor's counter is compared with the clock; a thread writes the file. Used by one thread.
class JobTrace {
 public:
  static constexpr std::uint64_t kMostEvents =
      5'000'000;  ///< the maximum of one trace, which then ends: Perfetto shows no more

  explicit JobTrace(JobHosts& hosts) : hosts_(hosts) {}

  /// Begins a trace. Throws Error if one is being taken.
  void begin(TraceRequest request);

  /// As HostListener::traced.
  void take(const TraceChunk& chunk);

  /// When `work` must be called.
  std::optional<Steady::time_point> next_work() const;
  void work();

  /// Ends the current trace because the job has ended; the file is written when this returns.
  void finish();

 private:
  enum class State {
    kIdle,
    kTaking,
    kEnding,  ///< waits for the agents' last data
    kWriting,
  };

  void end();
  void write();
  void settle_clocks();
  void say_how_it_went();

  JobHosts& hosts_;
  State state_ = State::kIdle;
  TraceRequest request_;
  std::shared_ptr<watch::TickClock> clock_;
  std::shared_ptr<TraceRecord> record_;
  std::optional<Steady::time_point> until_;  // kTaking: when it ends; kEnding: when it stops waiting
  std::string why_;                          // the reason of an early end
  struct Written {
    bool good = false;
    std::string line;
  };
  std::future<Written> written_;
};

/// The file of a trace of a restart: "trace.attempt-2.pftrace" for "trace.pftrace".
std::filesystem::path trace_of_attempt(const std::filesystem::path& file, int attempt);

}  // namespace lockstep::cli
