#pragma once

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/outcome.h"
#include "cli/output.h"
#include "cli/stacks/stacks.h"
#include "cli/trace/chunk.h"
#include "cli/trace/host_clock.h"
#include "lockstep/watch/clock.h"
#include "lockstep/watch/report.h"

namespace lockstep::cli {

using Steady = std::chrono::steady_clock;

/// What is to be started on one host.
struct HostJob {
  std::vector<std::string>
      command;         ///< The program, by path or by a name to look for in PATH, and its arguments.
  std::string folder;  ///< Where the processes start; empty: where the starter is.
  bool bind = true;    ///< Each process to its share of the host's cores.
  std::chrono::milliseconds silence{0};  ///< For so long host and launcher may not hear of each other.

  struct Process {
    int number = 0;                                ///< In the job.
    std::map<std::string, std::string> variables;  ///< Over the host's own environment.
  };
  std::vector<Process> processes;
  int first_on_host = 0;  ///< How many processes of the same host stand before these; they share its cores.
  int on_host = 0;        ///< How many it has in all.
};

/// Hears what becomes of the processes of a host, each named by its number in the job.
class HostListener {
 public:
  virtual ~HostListener() = default;
  virtual void started(int process, pid_t pid, const std::vector<int>& cores) = 0;  ///< No cores: not bound.
  virtual void output(int process, Stream stream, std::string_view bytes) = 0;
  virtual void output_ended(int process, Stream stream) = 0;

  /// The process has ended; what it wrote before has been given to `output`.
  virtual void ended(int process, const Outcome& outcome) = 0;

  /// The program could not be started for this reason, which is an errno; none of the host's processes runs.
  virtual void not_started(int error, const std::string& what) = 0;

  /// The host was lost, or never found, before any of its processes started.
  virtual void unreachable(const std::string& host, const std::string& why) = 0;

  /// What a process does, about every second, and once when it has ended, before `ended`.
  virtual void reported(watch::ProcessReport report) = 0;

  /// Some of what a process did while a trace is taken.
  virtual void traced(TraceChunk chunk) = 0;

  /// What `take_stacks` asked for, of one process.
  virtual void stacks_taken(int process, ProcessStacks stacks) = 0;

  /// A line for the user about the host.
  virtual void remark(const std::string& line) = 0;
};

/// The processes of one host, as the launcher sees them: children of its own, or behind an agent on another
/// host. Nothing blocks, and the listener is called from `start` and `work` only. Used by one thread. Its
/// destructor ends what is still there.
class ProcessHost {
 public:
  virtual ~ProcessHost() = default;

  /// Starts the processes; once.
  virtual void start(const HostJob& job) = 0;

  /// Adds what to poll before `work`, which is then given those same entries.
  virtual void add_polled(std::vector<pollfd>& polled) const = 0;
  virtual void work(std::span<const pollfd> polled) = 0;

  /// When `work` has to be called though nothing was polled.
  virtual std::optional<Steady::time_point> next_work() const = 0;

  /// Sends the signal to the process and its group. `from_terminal`: the kernel has sent it to the terminal's
  /// foreground group already.
  virtual void signal(int process, int signal, bool from_terminal) = 0;

  /// The next reports shall come with the logs of launches.
  virtual void ask_for_logs() = 0;

  /// From now on, and until `end_trace`, the listener is told by `traced` what the processes do. Their times
  /// are by `clock` where they run beside this process, and by a clock of their host's otherwise, which the
  /// exchanges compare with `clock`: one every so often.
  virtual void begin_trace(std::shared_ptr<watch::TickClock> clock,
                           std::chrono::milliseconds between_exchanges) = 0;
  virtual void end_trace() = 0;

  /// The listener is told the stacks of all its processes that run, as take_stacks takes them.
  virtual void take_stacks(std::chrono::milliseconds limit) = 0;

  /// Whether something of a trace may still come.
  virtual bool tracing() const = 0;

  /// Of the last trace; null where times are by the `clock` it was begun with.
  virtual const std::vector<ClockExchange>* exchanges() const = 0;

  /// While on, the output of its processes is not read, so that they wait when they write.
  virtual void hold_output(bool on) = 0;

  /// Whether something of it may still be heard, or has to be ended.
  virtual bool open() const = 0;
};

}  // namespace lockstep::cli
