// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <future>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cli/children/child_process.h"
#include "cli/children/descendants.h"
#include "cli/children/group_guard.h"
#include "cli/hosts/collector.h"
#include "cli/hosts/process_host.h"

namespace lockstep::cli {

/// Processes of this host, as children. Processes that they leave running are killed when all of them have
/// ended, and, within their process groups, also when this process ends for any reason.
class LocalHost : public ProcessHost {
 public:
  static constexpr long kDescriptorsOfAProcess = 2;  ///< of this process: the pipes of the output

  /// `give_stdin`: process 0 of the job, if it is here, reads this process's standard input; otherwise
  /// /dev/null.
  LocalHost(HostListener& listener, const Descendants& descendants, bool give_stdin);
  ~LocalHost() override;
  LocalHost(const LocalHost&) = delete;
  LocalHost& operator=(const LocalHost&) = delete;

  void start(const HostJob& job) override;
  void add_polled(std::vector<pollfd>& polled) const override;
  void work(std::span<const pollfd> polled) override;
  std::optional<Steady::time_point> next_work() const override;
  void signal(int process, int signal, bool from_terminal) override;
  void ask_for_logs() override { with_logs_ = true; }
  void begin_trace(std::shared_ptr<watch::TickClock> clock,
                   std::chrono::milliseconds between_exchanges) override;
  void end_trace() override;
  void take_stacks(std::chrono::milliseconds limit) override;
  bool tracing() const override { return trace_clock_ != nullptr; }
  const std::vector<ClockExchange>* exchanges() const override { return nullptr; }
  void hold_output(bool on) override { hold_output_ = on; }
  bool open() const override;

 private:
  struct Local {
    int number = 0;
    Child child;
    bool running = false;
    bool guarded = false;            ///< the guard knows its group
    bool group_of_launcher = false;  ///< it is in this process's group, to read from the terminal
    std::map<int, Steady::time_point> told_to_end;  ///< when each of INT, TERM and HUP was last passed on
  };

  void start(int number, ChildOptions& child);
  static bool repeats(Local& local, int signal);
  bool reads_terminal() const;
  std::string job_in_own_group(const HostJob& job) const;
  bool descriptors_suffice(const HostJob& job);
  bool read_some(Local& local, Stream stream);
  void reap();
  void report();
  void give_stacks();
  void trace();
  void trace(const Local& local, bool unfinished);
  void finish();

  HostListener& listener_;
  const Descendants& descendants_;
  const bool give_stdin_;
  std::optional<GroupGuard> guard_;
  std::vector<Local> locals_;
  Collector collector_;
  using TakenStacks = std::vector<std::pair<int, ProcessStacks>>;
  std::future<TakenStacks> stacks_;                ///< valid while a thread takes them
  bool with_logs_ = false;                         // for the next look
  std::shared_ptr<watch::TickClock> trace_clock_;  // while a trace is taken
  Steady::time_point next_trace_;
  int running_ = 0;
  bool hold_output_ = false;
  bool unwatched_ = false;  // the remark that recorders are missing has been made
  bool finished_ = false;
  std::optional<Steady::time_point> ended_at_;
};

}  // namespace lockstep::cli
