// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/outcome.h"
#include "cli/base/output.h"
#include "cli/run/attempt.h"
#include "cli/run/job_hosts.h"
#include "cli/run/job_stacks.h"
#include "cli/run/job_trace.h"
#include "lockstep/coordination/server/server.h"
#include "lockstep/watch/job_watch.h"

/// For the sources of an attempt: attempt.cc starts the processes and takes in what comes from them,
/// attempt_failures.cc finds out what has failed, and ends it.
namespace lockstep::cli {

class Attempt::Impl : HostListener {
 public:
  Impl(const JobOptions& options, JobIdentity job, Signals& signals, Console& console, JobStatus& status,
       const Descendants& descendants, std::optional<Steady::time_point> deadline);

  ~Impl();
  AttemptResult run();

 private:
  void serve();
  void start();

  // Waits for something to happen, and takes it in.
  void turn();

  // -1: until something happens.
  std::chrono::milliseconds time_to_wait() const;
  std::chrono::milliseconds grace() const {
    return std::chrono::milliseconds(static_cast<long>(options_.grace * 1000));
  }
  bool running(int i) const { return running_ > 0 && !fates_[i].outcome; }
  coordination::Whereabouts where(int i) const { return {hosts_.host_of_process()[i], fates_[i].pid}; }
  std::string name(int i) const { return coordination::name_process(i, where(i)); }

  // Reports from the hosts.

  void started(int process, pid_t pid, const std::vector<int>& cores) override;
  void output(int process, Stream stream, std::string_view bytes) override;
  void output_ended(int process, Stream stream) override { output_.finish(process, stream); }
  void ended(int process, const Outcome& outcome) override;
  void not_started(int error, const std::string& what) override;
  void unreachable(const std::string& host, const std::string& why) override;
  void lost_host(const std::string& host);
  void reported(watch::ProcessReport report) override;
  void stacks_taken(int process, ProcessStacks stacks) override { stacks_.take(process, std::move(stacks)); }
  void traced(TraceChunk chunk) override { trace_.take(chunk); }
  void remark(const std::string& line) override { output_.say(line); }

  // A request on the job's socket: {"request": "stacks", "all": B, "limit": SECONDS, "columns": N, "color":
  // B}.
  void show_stacks(const nlohmann::json& request, const std::shared_ptr<JobAnswer>& answer);

  // Throws Error where they cannot be taken.
  void take_stacks(StacksRequest wanted);

  // For the report of a failure; `then` hears when they have come, or that they cannot be had.
  void keep_stacks(std::function<void()> then = [] {});
  void begin_trace();
  void describe_start();

  // Signals.

  void handle(const Signal& signal);

  // `timeout` and service managers send one request twice: to the launcher and to its group.
  bool is_another_request(const Signal& signal) const;
  bool told_to_end() const { return stop_signal_ != 0 || timed_out_; }

  // SIGTERM at once, SIGKILL after the grace.
  void time_out();
  void pass_on(const Signal& signal);
  void end(int i, int signal);

  // Failures.

  // Judges the processes that were seen to have ended at one moment.
  void judge_ended();

  // The coordinator knows what came first: this end, or what others reported before it.
  void failed(int i);
  bool cause_is_known() const { return !failure_.empty(); }

  // Asked to end, a process may do so with status 0, whoever waits for it.
  void look_for_the_cause();
  void blame(const coordination::Failure& first);

  // A job of one process has nobody to wait for.
  bool coordinated() const { return options_.num_processes > 1; }

  void ask_coordinator();

  // Stalls.

  void look_for_stalls();
  void stalled(const watch::JobWatch::Failure& failure);

  // Waiting for others.

  std::chrono::milliseconds word_interval() const;

  // Whether it is time for a word, after so many seconds of waiting.
  std::optional<long> time_for_a_word();
  void say_which_hosts_are_missing();

  // A program that does not call initialize() is not waited for.
  void say_which_processes_are_missing();

  // Ended with status 0: fine, unless it was, or should have become, a member of the job that others wait
  // for.
  void look_for_early_leavers();
  void end_the_others();

  // Ends.

  AttemptResult give_up();
  AttemptResult ended_before_start();
  AttemptResult finish();
  void keep_report(const std::string& words);
  std::string what_differs() const;

  // A cause that ended with status 0, or because the launcher made it, leaves it to the others to give a
  // status.
  int status() const;

  const JobOptions& options_;
  JobIdentity job_;
  Signals& signals_;
  Console& console_;
  JobStatus& status_;
  const std::optional<Steady::time_point> deadline_;
  JobHosts hosts_;
  Output output_;
  coordination::CoordinationServer server_;

  watch::JobWatch watch_;
  Steady::time_point next_look_ = Steady::now();
  JobTrace trace_{hosts_};
  JobStacks stacks_;
  bool stacks_asked_ = false, stall_reported_ = false;
  std::string stacks_text_;                     // for the report of a failure
  bool hosts_started_ = false;                  // before, there is nothing to take a trace of
  std::optional<Steady::time_point> trace_at_;  // when the trace that the user asked for begins

  std::vector<Fate> fates_;
  std::vector<std::vector<int>> cores_;
  std::vector<int> ended_;  // since judge_ended looked last
  int running_ = 0, started_ = 0;
  std::optional<std::string> given_up_;  // why nothing could be started
  int given_up_status_ = 0;
  bool unreachable_ = false;  // for a host did not answer
  std::set<std::string> lost_hosts_;
  Steady::time_point waiting_since_ = Steady::now(), word_at_ = waiting_since_;  // for hosts, then processes
  bool all_came_ = false;

  int stop_signal_ = 0;  // the first that came
  struct RequestToEnd {
    Steady::time_point at;
    bool from_terminal = false;
  };
  std::optional<RequestToEnd> asked_to_end_;  // by INT or TERM; the next request kills
  std::vector<int> early_leavers_;
  Steady::time_point asked_at_;
  std::vector<int> causes_;  // the processes to blame
  std::string failure_;
  std::optional<Steady::time_point>
      failed_at_;  // since when the others' grace runs; none after a stop signal
  bool terminated_ = false, killed_ = false, timed_out_ = false;
};

}  // namespace lockstep::cli
