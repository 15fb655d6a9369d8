// SPDX-License-Identifier: Apache-2.0
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

#include "cli/base/outcome.h"
#include "cli/base/output.h"
#include "cli/stacks/stacks.h"
#include "cli/trace/chunk.h"
#include "cli/trace/host_clock.h"
#include "lockstep/watch/clock.h"
#include "lockstep/watch/report.h"

namespace lockstep::cli {

using Steady = std::chrono::steady_clock;

/// The processes to start on one host.
struct HostJob {
  std::vector<std::string>
      command;         ///< the program, by path or by a name to look up in PATH, and its arguments
  std::string folder;  ///< the working folder of the processes; empty: the starter's
  bool bind = true;    ///< bind each process to its share of the host's cores
  std::chrono::milliseconds silence{0};  ///< the longest silence between host and launcher

  /// The folder for copies of the output that another host writes itself (LogFiles); empty: it writes none.
  std::string log_folder;
  int attempt = 0;  ///< of the job, for the names of the logs

  struct Process {
    int number = 0;                                ///< in the job
    std::map<std::string, std::string> variables;  ///< added to the host's own environment
    bool send_output = true;                       ///< to the launcher, if this is another host
  };
  std::vector<Process> processes;
  int first_on_host = 0;  ///< the number of processes of the same host before these; they share its cores
  int on_host = 0;        ///< the number of processes on the host
};

/// Gets events of the processes of a host, each with its number in the job.
class HostListener {
 public:
  virtual ~HostListener() = default;
  virtual void started(int process, pid_t pid, const std::vector<int>& cores) = 0;  ///< no cores: not bound
  virtual void output(int process, Stream stream, std::string_view bytes) = 0;
  virtual void output_ended(int process, Stream stream) = 0;

  /// The process has ended; its output has been passed to `output` before.
  virtual void ended(int process, const Outcome& outcome) = 0;

  /// The program could not be started, and none of the host's processes runs. `what` is the whole message;
  /// `error` the errno, or 0 if the reason is another one.
  virtual void not_started(int error, const std::string& what) = 0;

  /// The host was lost, or never reached, before any of its processes started.
  virtual void unreachable(const std::string& host, const std::string& why) = 0;

  /// A report about a process: about every second, and once after it has ended, before `ended`.
  virtual void reported(watch::ProcessReport report) = 0;

  /// A part of a process's trace.
  virtual void traced(TraceChunk chunk) = 0;

  /// The result of `take_stacks` for one process.
  virtual void stacks_taken(int process, ProcessStacks stacks) = 0;

  /// A line for the user about the host.
  virtual void remark(const std::string& line) = 0;
};

/// The processes of one host: children of the launcher, or processes behind an agent on another host. Nothing
/// blocks, and the listener is only called from `start` and `work`. Used by one thread. The destructor ends
/// remaining processes.
class ProcessHost {
 public:
  virtual ~ProcessHost() = default;

  /// Starts the processes; only once.
  virtual void start(const HostJob& job) = 0;

  /// Adds what to poll before `work`, which then gets the same entries.
  virtual void add_polled(std::vector<pollfd>& polled) const = 0;
  virtual void work(std::span<const pollfd> polled) = 0;

  /// When `work` must be called without an event.
  virtual std::optional<Steady::time_point> next_work() const = 0;

  /// Sends the signal to the process and its group. `from_terminal`: the kernel has already sent it to the
  /// terminal's foreground group.
  virtual void signal(int process, int signal, bool from_terminal) = 0;

  /// The next reports must contain the logs of launches.
  virtual void ask_for_logs() = 0;

  /// From now on, until `end_trace`, the listener gets the processes' activities by `traced`. Times are by
  /// `clock` if the processes run on this host, and otherwise by a clock of their host, which is compared
  /// with `clock` in regular exchanges.
  virtual void begin_trace(std::shared_ptr<watch::TickClock> clock,
                           std::chrono::milliseconds between_exchanges) = 0;
  virtual void end_trace() = 0;

  /// The listener gets the stacks of all running processes of this host, as take_stacks takes them.
  virtual void take_stacks(std::chrono::milliseconds limit) = 0;

  /// Whether data of a trace may still arrive.
  virtual bool tracing() const = 0;

  /// The clock exchanges of the last trace; null if its times are by the `clock` with which it was begun.
  virtual const std::vector<ClockExchange>* exchanges() const = 0;

  /// While on, the output of the processes is not read, so that they wait when they write.
  virtual void hold_output(bool on) = 0;

  /// Whether something must still be received from it, or ended.
  virtual bool open() const = 0;
};

}  // namespace lockstep::cli
