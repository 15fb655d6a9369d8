#pragma once

#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "cli/job_hosts.h"
#include "cli/trace/record.h"

namespace lockstep::cli {

/// A trace that somebody wants.
struct TraceRequest {
  std::filesystem::path file;
  std::optional<double> seconds;  ///< None: until the job ends.

  /// Hears how it went, in a line for the user, once: `good` where the file is written.
  std::function<void(bool good, const std::string& line)> done;
};

/// Takes traces of a running job, one at a time: what all processes do goes into one file of Perfetto's.
/// While none is taken nothing is read and nothing is sent. Nothing blocks but the first 20 ms of a trace, in
/// which the processor's counter is compared with the clock; a thread writes the file. Used by one thread.
class JobTrace {
 public:
  static constexpr std::uint64_t kMostEvents =
      5'000'000;  ///< Of one trace, which then ends: Perfetto shows no more.

  explicit JobTrace(JobHosts& hosts) : hosts_(hosts) {}

  /// Begins one. Throws Error where one is being taken, or the file cannot be written.
  void begin(TraceRequest request);

  /// As HostListener::traced.
  void take(const TraceChunk& chunk);

  /// When `work` has to be called.
  std::optional<Steady::time_point> next_work() const;
  void work();

  /// Ends the one that is taken, for the job has ended; its file is written when this returns.
  void finish();

 private:
  enum class State {
    kIdle,
    kTaking,
    kEnding,  ///< Waits for the last that agents say.
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
  std::optional<Steady::time_point>
      until_;        // kTaking: when it ends; kEnding: when nobody is waited for any longer
  std::string why_;  // it ends early
  struct Written {
    bool good = false;
    std::string line;
  };
  std::future<Written> written_;
};

/// The place of a trace of a restart: "trace.attempt-2.pftrace" for "trace.pftrace".
std::filesystem::path trace_of_attempt(const std::filesystem::path& file, int attempt);

}  // namespace lockstep::cli
