// SPDX-License-Identifier: Apache-2.0
#include "cli/run/attempt.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cli/children/child_process.h"
#include "cli/children/core_shares.h"
#include "cli/run/attempt_impl.h"
#include "cli/run/trace_request.h"
#include "cli/trace/trace_command.h"
#include "lockstep/base/cores.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/coordination/protocol/graces.h"

namespace lockstep::cli {

using std::chrono::milliseconds;
namespace graces = coordination::graces;

namespace {

const char* plural(int count, const char* one, const char* many) { return count == 1 ? one : many; }

}  // namespace

Attempt::Impl::Impl(const JobOptions& options, JobIdentity job, Signals& signals, Console& console,
                    JobStatus& status, const Descendants& descendants,
                    std::optional<Steady::time_point> deadline)
    : options_(options),
      job_(std::move(job)),
      signals_(signals),
      console_(console),
      status_(status),
      deadline_(deadline),
      hosts_(options, descendants, *this),
      output_(options.num_processes, hosts_.several() ? hosts_.host_of_process() : std::vector<std::string>(),
              console.out(), console.err()),
      watch_(options.num_processes, options.stall_warning, options.stall_timeout),
      fates_(options.num_processes),
      cores_(options.num_processes) {
  status_.board().begin(job_.attempt);
  output_.on_say([this](std::string_view line) { status_.board().said(line); });
}

Attempt::Impl::~Impl() {
  status_.server().answer("stacks", [](const nlohmann::json&, const auto& answer) {
    answer->line({{"error", "the job's processes are not running now"}});
  });
  status_.server().answer(kTraceRequest, [](const nlohmann::json& request, const auto& answer) {
    answer_trace_request(nullptr, request, answer);
  });
}

AttemptResult Attempt::Impl::run() {
  status_.server().answer(
      "stacks", [this](const nlohmann::json& request, const auto& answer) { show_stacks(request, answer); },
      /*in_loop=*/true);
  status_.server().answer(
      kTraceRequest,
      [this](const nlohmann::json& request, const auto& answer) {
        answer_trace_request(hosts_started_ ? &trace_ : nullptr, request, answer);
      },
      /*in_loop=*/true);
  status_.board().set_state("waiting for hosts");
  while (!hosts_.ready() && !given_up_ && !told_to_end()) {
    turn();
    say_which_hosts_are_missing();
  }
  if (given_up_) return give_up();
  if (told_to_end()) return ended_before_start();
  serve();
  start();
  status_.board().set_state("running");
  status_.publish();
  while (!given_up_ && (running_ > 0 || hosts_.open())) {
    turn();
    judge_ended();
    ask_coordinator();
    look_for_stalls();
    end_the_others();
    begin_trace();
  }
  trace_.finish();
  stacks_.finish();
  if (given_up_) return give_up();
  for (int i = 0; i < options_.num_processes; ++i) {
    output_.finish(i, Stream::kOut);
    output_.finish(i, Stream::kErr);
  }
  return finish();
}

void Attempt::Impl::serve() {
  coordination::ServerOptions server;
  server.bind_address = hosts_.coordinator_bind_address();
  server.num_processes = options_.num_processes;
  server.identity = {.job_id = job_.job_id, .attempt = job_.attempt, .secret = job_.secret};
  server.tls = coordination::TlsFiles::from(Environment::process());
  server.peer_report_grace = graces::kForTheLauncher;
  auto set = [](milliseconds& timeout, const std::optional<int>& seconds) {
    if (seconds) timeout = std::chrono::seconds(*seconds);
  };
  set(server.heartbeat_timeout, options_.heartbeat_timeout);
  set(server.register_timeout, options_.initialization_timeout);
  set(server.shutdown_timeout, options_.shutdown_timeout);
  server_.start(server);
  job_.coordinator_address = server_.address();
}

void Attempt::Impl::start() {
  const bool logs_here = options_.logs == JobOptions::Logs::kHere || !hosts_.remote();
  if (options_.log_folder && logs_here) output_.keep_logs(*options_.log_folder, job_.attempt);
  if (options_.shown) output_.show_only(*options_.shown);
  if (options_.report_folder) output_.keep_ends();
  std::map<std::string, std::string> common = options_.settings;
  if (options_.log_folder)
    common["LOCKSTEP_LOG_DIR"] = std::filesystem::absolute(*options_.log_folder).string();
  if (isatty(STDOUT_FILENO) == 1) common["LOCKSTEP_TERMINAL"] = "1";  // progress may be drawn in place
  common.merge(std::map(options_.variables));
  if (hosts_.remote()) common.merge(travelling_variables());
  running_ = options_.num_processes;
  waiting_since_ = word_at_ = Steady::now();
  hosts_.start(job_.attempt, [&](int process) {
    std::map<std::string, std::string> variables = process_variables(job_, process);
    variables.merge(std::map(common));
    return variables;
  });
  hosts_started_ = true;
  if (!options_.trace_file) return;
  trace_at_ = Steady::now() + std::chrono::duration_cast<Steady::duration>(
                                  std::chrono::duration<double>(options_.trace_after));
  begin_trace();
}

void Attempt::Impl::turn() {
  console_.work();
  hosts_.hold_output(console_.full());
  std::vector<pollfd> polled = {{signals_.descriptor(), POLLIN, 0}, status_.polled()};
  console_.add_polled(polled);
  hosts_.add_polled(polled);
  poll(polled.data(), polled.size(), static_cast<int>(time_to_wait().count()));
  for (const Signal& signal : signals_.take()) handle(signal);
  if (deadline_ && Steady::now() >= *deadline_) time_out();
  hosts_.work(std::span(polled).subspan(2 + Console::kPolled));
  status_.work();
  trace_.work();
  stacks_.work();
}

milliseconds Attempt::Impl::time_to_wait() const {
  std::optional<Steady::time_point> next = hosts_.next_work();
  auto consider = [&](Steady::time_point time) { next = next ? std::min(*next, time) : time; };
  consider(status_.next_work());
  if (failed_at_ && running_ > 0 && !killed_) consider(*failed_at_ + (terminated_ ? grace() : grace() / 2));
  if (!cause_is_known() && running_ > 0 && coordinated()) consider(asked_at_ + graces::kLauncherLooks);
  if (running_ > 0) consider(next_look_);
  if (running_ > 0 && trace_at_) consider(*trace_at_);
  if (const auto time = trace_.next_work()) consider(*time);
  if (const auto time = stacks_.next_work()) consider(*time);
  if (!hosts_.ready()) consider(word_at_ + word_interval());
  if (deadline_ && !timed_out_ && !failed_at_) consider(*deadline_);
  if (!next) return milliseconds(-1);
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(*next - Steady::now()));
}

// Reports from the hosts.

void Attempt::Impl::started(int process, pid_t pid, const std::vector<int>& cores) {
  fates_[process].pid = pid;
  cores_[process] = cores;
  server_.set_whereabouts(process, where(process));
  if (++started_ == options_.num_processes && options_.verbose) describe_start();
}

void Attempt::Impl::output(int process, Stream stream, std::string_view bytes) {
  output_.feed(process, stream, bytes);
}

void Attempt::Impl::ended(int process, const Outcome& outcome) {
  if (fates_[process].outcome) return;
  fates_[process].outcome = outcome;
  status_.board().ended(process, outcome);
  if (!outcome.lost.empty() && !outcome.with_another) lost_host(hosts_.host_of_process()[process]);
  --running_;
  ended_.push_back(process);
}

void Attempt::Impl::not_started(int error, const std::string& what) {
  if (given_up_) return;
  given_up_ = what;
  given_up_status_ = error == ENOENT                    ? kNotFound
                     : error == 0 || is_shortage(error) ? kLauncherFailed
                                                        : kNotExecutable;
}

void Attempt::Impl::unreachable(const std::string& host, const std::string& why) {
  lost_host(host);
  if (given_up_) return;
  given_up_ = why;
  given_up_status_ = kLauncherFailed;
  unreachable_ = true;
}

void Attempt::Impl::lost_host(const std::string& host) {
  for (const Placement& placement : options_.placements) {
    if (shown(without_user(placement.host)) == host) lost_hosts_.insert(placement.host);
  }
}

void Attempt::Impl::reported(watch::ProcessReport report) {
  report.host = hosts_.several() ? hosts_.host_of_process()[report.process] : "";
  status_.board().take(report);
  watch_.take(std::move(report));
}

void Attempt::Impl::show_stacks(const nlohmann::json& request, const std::shared_ptr<JobAnswer>& answer) {
  try {
    const double limit = std::clamp(request.value("limit", 3.0), 0.1, 600.0);
    StacksRequest wanted{.limit = milliseconds(static_cast<long>(limit * 1000)),
                         .all = request.value("all", false),
                         .print = {.columns = std::clamp(request.value("columns", 100), 40, 1000),
                                   .color = request.value("color", false)},
                         .done = [answer](bool complete, const std::string& text) {
                           answer->line({{"complete", complete}, {"text", text}});
                         }};
    take_stacks(std::move(wanted));
  } catch (const std::exception& error) {
    answer->line({{"error", error.what()}});
  }
}

void Attempt::Impl::take_stacks(StacksRequest wanted) {
  std::set<int> processes;
  for (int i = 0; i < options_.num_processes; ++i)
    if (running(i) && fates_[i].pid != 0) processes.insert(i);
  const milliseconds limit = wanted.limit;
  stacks_.begin(std::move(wanted), std::move(processes));
  hosts_.take_stacks(limit);
}

void Attempt::Impl::keep_stacks(std::function<void()> then) {
  if (!options_.report_folder || stacks_asked_) return then();
  stacks_asked_ = true;
  try {
    take_stacks({.done = [this, then](bool, const std::string& text) {
      stacks_text_ = text;
      then();
    }});
  } catch (const Error&) {  // somebody else takes them, or nothing runs
    then();
  }
}

void Attempt::Impl::begin_trace() {
  if (!trace_at_ || Steady::now() < *trace_at_ || given_up_) return;
  trace_at_.reset();
  try {
    trace_.begin({.file = std::make_shared<TraceFile>(trace_of_attempt(*options_.trace_file, job_.attempt)),
                  .seconds = options_.trace_seconds,
                  .done = [this](bool, const std::string& line) { output_.say(line); }});
  } catch (const Error& error) {
    output_.say(error.what());
  }
}

void Attempt::Impl::describe_start() {
  std::string places;
  for (int i = 0; i < options_.num_processes; ++i) {
    const std::string host = hosts_.several() ? "@" + hosts_.host_of_process()[i] : "";
    if (!cores_[i].empty()) places += fmt::format(" [{}{}] {}", i, host, name_cores(cores_[i]));
  }
  const int processes = options_.num_processes, hosts = static_cast<int>(hosts_.count());
  output_.say(fmt::format("job {} attempt {}: {} {} on {} {}, coordinator {}, {}{}", job_.job_id,
                          job_.attempt, processes, plural(processes, "process", "processes"), hosts,
                          plural(hosts, "host", "hosts"), job_.coordinator_address,
                          places.empty() ? "not bound to cores" : "on cores", places));
}

// Signals.

void Attempt::Impl::handle(const Signal& signal) {
  switch (signal.number) {
    case SIGCHLD:
      return;     // the hosts look at all their children anyway
    case SIGHUP:  // a terminal that is closed may send it twice, and a service manager behind TERM
      if (stop_signal_ == 0) stop_signal_ = signal.number;
      return pass_on(signal);
    case SIGINT:
    case SIGTERM:
      if (asked_to_end_) {
        if (!is_another_request(signal)) return;
        for (int i = 0; i < options_.num_processes; ++i) end(i, SIGKILL);
        return;
      }
      asked_to_end_ = {.at = Steady::now(), .from_terminal = signal.from_terminal};
      if (stop_signal_ == 0) stop_signal_ = signal.number;
      return pass_on(signal);
    case SIGTSTP:
      pass_on(signal);
      hosts_.pause();
      raise(SIGSTOP);
      return;
    default:
      return pass_on(signal);
  }
}

bool Attempt::Impl::is_another_request(const Signal& signal) const {
  const bool pressed_again = signal.from_terminal && asked_to_end_->from_terminal;
  return pressed_again || Steady::now() >= asked_to_end_->at + kOneRequest;
}

void Attempt::Impl::time_out() {
  if (timed_out_ || failed_at_) return;
  timed_out_ = terminated_ = true;
  failed_at_ = Steady::now();
  for (int i = 0; i < options_.num_processes; ++i) end(i, SIGTERM);
}

void Attempt::Impl::pass_on(const Signal& signal) {
  for (int i = 0; i < options_.num_processes; ++i) {
    if (running(i)) hosts_.signal(i, signal.number, signal.from_terminal);
  }
}

void Attempt::Impl::end(int i, int signal) {
  if (!running(i)) return;
  fates_[i].sent_signal = signal;
  hosts_.signal(i, signal, false);
}

Attempt::Attempt(const JobOptions& options, JobIdentity job, Signals& signals, Console& console,
                 JobStatus& status, const Descendants& descendants,
                 std::optional<Steady::time_point> deadline)
    : impl_(
          std::make_unique<Impl>(options, std::move(job), signals, console, status, descendants, deadline)) {}

Attempt::~Attempt() = default;

AttemptResult Attempt::run() { return impl_->run(); }

}  // namespace lockstep::cli
