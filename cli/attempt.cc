#include "cli/attempt.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>

#include "cli/collector.h"
#include "cli/core_shares.h"
#include "cli/failure_report.h"
#include "cli/job_hosts.h"
#include "cli/job_stacks.h"
#include "cli/job_trace.h"
#include "cli/outcome.h"
#include "cli/output.h"
#include "cli/trace_command.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/coordination/graces.h"
#include "lockstep/coordination/server.h"
#include "lockstep/watch/job_watch.h"

namespace lockstep::cli {
namespace {

using coordination::FailureKind;
using std::chrono::milliseconds;
namespace graces = coordination::graces;

constexpr milliseconds kWordInterval(10000);  // between two words on who is waited for

const char* plural(int count, const char* one, const char* many) { return count == 1 ? one : many; }

}  // namespace

class Attempt::Impl : HostListener {
 public:
  Impl(const JobOptions& options, JobIdentity job, Signals& signals, Console& console, JobStatus& status,
       const Descendants& descendants, std::optional<Steady::time_point> deadline)
      : options_(options),
        job_(std::move(job)),
        signals_(signals),
        console_(console),
        status_(status),
        deadline_(deadline),
        hosts_(options, descendants, *this),
        output_(options.num_processes,
                hosts_.several() ? hosts_.host_of_process() : std::vector<std::string>(), console.out(),
                console.err()),
        watch_(options.num_processes, options.stall_warning, options.stall_timeout),
        fates_(options.num_processes),
        cores_(options.num_processes) {
    status_.board().begin(job_.attempt);
    output_.on_say([this](std::string_view line) { status_.board().said(line); });
  }

  ~Impl() {
    status_.server().answer("stacks", [](const nlohmann::json&, const auto& answer) {
      answer->line({{"error", "the job's processes are not running now"}});
    });
    status_.server().answer(kTraceRequest, [](const nlohmann::json& request, const auto& answer) {
      answer_trace_request(nullptr, request, answer);
    });
  }

  AttemptResult run() {
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

 private:
  void serve() {
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

  void start() {
    if (options_.log_folder) output_.keep_logs(*options_.log_folder, job_.attempt);
    if (options_.report_folder) output_.keep_ends();
    ProcessSettings settings;
    settings.devices_per_process = options_.devices_per_process;
    settings.heartbeat_timeout = options_.heartbeat_timeout;
    settings.initialization_timeout = options_.initialization_timeout;
    settings.shutdown_timeout = options_.shutdown_timeout;
    settings.interface = options_.interface;
    if (options_.log_folder) settings.log_folder = std::filesystem::absolute(*options_.log_folder).string();
    settings.terminal = isatty(STDOUT_FILENO) == 1;
    std::map<std::string, std::string> common = options_.variables;
    if (hosts_.remote()) common.merge(travelling_variables());
    running_ = options_.num_processes;
    waiting_since_ = word_at_ = Steady::now();
    hosts_.start([&](int process) {
      std::map<std::string, std::string> variables = process_variables(job_, settings, process);
      variables.merge(std::map(common));
      return variables;
    });
    hosts_started_ = true;
    if (!options_.trace_file) return;
    trace_at_ = Steady::now() + std::chrono::duration_cast<Steady::duration>(
                                    std::chrono::duration<double>(options_.trace_after));
    begin_trace();
  }

  // Waits for something to happen, and takes it in.
  void turn() {
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

  // -1: until something happens.
  milliseconds time_to_wait() const {
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

  milliseconds grace() const { return milliseconds(static_cast<long>(options_.grace * 1000)); }
  bool running(int i) const { return running_ > 0 && !fates_[i].outcome; }
  coordination::Whereabouts where(int i) const { return {hosts_.host_of_process()[i], fates_[i].pid}; }
  std::string name(int i) const { return coordination::name_process(i, where(i)); }

  // What the hosts say.

  void started(int process, pid_t pid, const std::vector<int>& cores) override {
    fates_[process].pid = pid;
    cores_[process] = cores;
    server_.set_whereabouts(process, where(process));
    if (++started_ == options_.num_processes && options_.verbose) describe_start();
  }
  void output(int process, Stream stream, std::string_view bytes) override {
    output_.feed(process, stream, bytes);
  }
  void output_ended(int process, Stream stream) override { output_.finish(process, stream); }
  void ended(int process, const Outcome& outcome) override {
    if (fates_[process].outcome) return;
    fates_[process].outcome = outcome;
    status_.board().ended(process, outcome);
    if (!outcome.lost.empty()) lost_host(hosts_.host_of_process()[process]);
    --running_;
    ended_.push_back(process);
  }
  void not_started(int error, const std::string& what) override {
    if (given_up_) return;
    const std::error_code code(error, std::generic_category());
    given_up_ = fmt::format("{}: {}", what, code.message());
    given_up_status_ = code == std::errc::no_such_file_or_directory ? kNotFound
                       : code == std::errc::too_many_files_open     ? kLauncherFailed
                                                                    : kNotExecutable;
  }
  void unreachable(const std::string& host, const std::string& why) override {
    lost_host(host);
    if (given_up_) return;
    given_up_ = why;
    given_up_status_ = kLauncherFailed;
    unreachable_ = true;
  }
  void lost_host(const std::string& host) {
    for (const Placement& placement : options_.placements) {
      if (without_user(placement.host) == host) lost_hosts_.insert(placement.host);
    }
  }
  void reported(watch::ProcessReport report) override {
    report.host = hosts_.several() ? hosts_.host_of_process()[report.process] : "";
    status_.board().take(report);
    watch_.take(std::move(report));
  }
  void stacks_taken(int process, ProcessStacks stacks) override { stacks_.take(process, std::move(stacks)); }
  void traced(TraceChunk chunk) override { trace_.take(chunk); }
  void remark(const std::string& line) override { output_.say(line); }

  // A request on the job's socket: {"request": "stacks", "all": B, "limit": SECONDS, "columns": N, "color":
  // B}.
  void show_stacks(const nlohmann::json& request, const std::shared_ptr<JobAnswer>& answer) {
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

  // Throws Error where they cannot be taken.
  void take_stacks(StacksRequest wanted) {
    std::set<int> processes;
    for (int i = 0; i < options_.num_processes; ++i)
      if (running(i) && fates_[i].pid != 0) processes.insert(i);
    const milliseconds limit = wanted.limit;
    stacks_.begin(std::move(wanted), std::move(processes));
    hosts_.take_stacks(limit);
  }

  // For the report of a failure; `then` hears when they have come, or that they cannot be had.
  void keep_stacks(std::function<void()> then = [] {}) {
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

  void begin_trace() {
    if (!trace_at_ || Steady::now() < *trace_at_ || given_up_) return;
    trace_at_.reset();
    try {
      trace_.begin({.file = trace_of_attempt(*options_.trace_file, job_.attempt),
                    .seconds = options_.trace_seconds,
                    .done = [this](bool, const std::string& line) { output_.say(line); }});
    } catch (const Error& error) {
      output_.say(error.what());
    }
  }

  void describe_start() {
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

  void handle(const Signal& signal) {
    switch (signal.number) {
      case SIGCHLD:
        return;     // the hosts look at all their children anyway
      case SIGHUP:  // a terminal that is closed may send it twice, and a service manager behind TERM
        if (stop_signal_ == 0) stop_signal_ = signal.number;
        return pass_on(signal);
      case SIGINT:
      case SIGTERM:
        if (asked_to_end_) {
          for (int i = 0; i < options_.num_processes; ++i) end(i, SIGKILL);
          return;
        }
        asked_to_end_ = true;
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

  bool told_to_end() const { return stop_signal_ != 0 || timed_out_; }

  // SIGTERM at once, SIGKILL after the grace.
  void time_out() {
    if (timed_out_ || failed_at_) return;
    timed_out_ = terminated_ = true;
    failed_at_ = Steady::now();
    for (int i = 0; i < options_.num_processes; ++i) end(i, SIGTERM);
  }

  void pass_on(const Signal& signal) {
    for (int i = 0; i < options_.num_processes; ++i) {
      if (running(i)) hosts_.signal(i, signal.number, signal.from_terminal);
    }
  }

  void end(int i, int signal) {
    if (!running(i)) return;
    fates_[i].sent_signal = signal;
    hosts_.signal(i, signal, false);
  }

  // Failures.

  // Those that were seen to have ended at one moment.
  void judge_ended() {
    if (ended_.empty()) return;
    std::vector<int> ended = std::exchange(ended_, {});
    std::vector<Outcome> outcomes;
    for (const int i : ended) outcomes.push_back(*fates_[i].outcome);
    std::swap(ended[0], ended[likeliest_cause(outcomes)]);
    for (const int i : ended) {
      if (fates_[i].outcome->success()) {
        if (!cause_is_known()) early_leavers_.push_back(i);
      } else {
        failed(i);
      }
    }
  }

  // The coordinator knows what came first: this end, or what others reported before it.
  void failed(int i) {
    const Outcome& outcome = *fates_[i].outcome;
    const bool by_itself = outcome.lost.empty() && (outcome.signal == 0 || outcome.signal == SIGABRT);
    const coordination::Failure own{by_itself ? FailureKind::kEndedWithError : FailureKind::kDied,
                                    {i},
                                    fmt::format("{} {}", name(i), outcome.describe())};
    look_for_early_leavers();
    server_.report_task_failure(i, own.message, own.kind);
    look_for_the_cause();
    if (told_to_end() && !cause_is_known()) blame(own);
  }

  bool cause_is_known() const { return !failure_.empty(); }

  // Asked to end, a process may do so with status 0, whoever waits for it.
  void look_for_the_cause() {
    if (cause_is_known()) return;
    const auto first = server_.first_failure();
    if (first && !(told_to_end() && first->kind == FailureKind::kLeftEarly)) blame(*first);
  }

  void blame(const coordination::Failure& first) {
    causes_ = first.processes;
    failure_ = first.message.substr(0, first.message.find("\nconsequence: "));
    status_.board().set_failure(failure_);
    status_.board().set_state("ending");
    // After a stop signal the others take as long as they need; after a time-out their grace runs.
    if (told_to_end()) return;
    failed_at_ = Steady::now();
    if (running_ == 0) return;
    output_.say(fmt::format("{}; telling the others", failure_));
    keep_stacks();
  }

  // A job of one process has nobody to wait for.
  bool coordinated() const { return options_.num_processes > 1; }

  void ask_coordinator() {
    const Steady::time_point now = Steady::now();
    if (cause_is_known() || running_ == 0 || !coordinated() || now < asked_at_ + graces::kLauncherLooks)
      return;
    asked_at_ = now;
    look_for_early_leavers();
    look_for_the_cause();
    say_which_processes_are_missing();
  }

  // Stalls.

  void look_for_stalls() {
    const Steady::time_point now = Steady::now();
    if (now < next_look_ || running_ == 0) return;
    next_look_ = now + Collector::kInterval;
    if (cause_is_known() || told_to_end()) return status_.board().set_stalls({});
    for (const std::string& line : watch_.look(now)) output_.say(line);
    status_.board().set_stalls(watch_.stalls());
    if (watch_.wants_logs()) hosts_.ask_for_logs();
    if (watch_.failure() && !stall_reported_) {
      stall_reported_ = true;
      keep_stacks([this] { stalled(*watch_.failure()); });
    }
  }

  void stalled(const watch::JobWatch::Failure& failure) {
    if (running_ == 0) return;  // it has gone on and ended since
    server_.report_task_failure(failure.processes.front(), failure.message, FailureKind::kStalled);
    look_for_the_cause();
  }

  // Waiting for others.

  milliseconds word_interval() const {
    const milliseconds timeout = std::chrono::seconds(options_.initialization_timeout.value_or(300));
    return std::min(kWordInterval, timeout / 3);
  }

  // Whether it is time for a word, after so many seconds of waiting.
  std::optional<long> time_for_a_word() {
    const Steady::time_point now = Steady::now();
    if (now < word_at_ + word_interval()) return std::nullopt;
    word_at_ = now;
    return std::chrono::duration_cast<std::chrono::seconds>(now - waiting_since_).count();
  }

  void say_which_hosts_are_missing() {
    const auto waited = hosts_.ready() ? std::nullopt : time_for_a_word();
    if (!waited) return;
    const std::vector<std::string> missing = hosts_.missing();
    output_.say(fmt::format("waiting for hosts: {} of {} have answered after {} s; missing: {}",
                            hosts_.agents() - missing.size(), hosts_.agents(), *waited,
                            fmt::join(missing, ", ")));
  }

  // A program that does not call initialize() is not waited for.
  void say_which_processes_are_missing() {
    const auto waited = all_came_ ? std::nullopt : time_for_a_word();
    if (!waited) return;
    std::vector<int> missing;
    for (const coordination::TaskInfo& task : server_.tasks()) {
      if (task.incarnation == 0) missing.push_back(task.task);
    }
    all_came_ = missing.empty();
    const int came = options_.num_processes - static_cast<int>(missing.size());
    if (all_came_ || came == 0 || watch_.says_who_has_not_come()) return;
    output_.say(
        fmt::format("waiting for processes: {} of {} have called initialize() after {} s; missing: {}", came,
                    options_.num_processes, *waited, name_by_host(missing, hosts_.host_of_process())));
  }

  // Ended with status 0: fine, unless it was, or should have become, a member of the job that others wait
  // for.
  void look_for_early_leavers() {
    if (early_leavers_.empty() || cause_is_known()) return;
    const std::vector<coordination::TaskInfo> tasks = server_.tasks();
    const bool others_came = std::any_of(tasks.begin(), tasks.end(), [&](const coordination::TaskInfo& task) {
      const auto& outcome = fates_[task.task].outcome;
      return task.incarnation != 0 && (!outcome || !outcome->success());
    });
    if (!others_came) return;
    for (const int i : early_leavers_) {
      if (tasks[i].state == coordination::TaskState::kDisconnected) continue;
      server_.report_task_failure(i,
                                  fmt::format("{} ended with status 0 without {}", name(i),
                                              tasks[i].incarnation == 0 ? "initialize()" : "shutdown()"),
                                  FailureKind::kLeftEarly);
      if (!told_to_end()) return look_for_the_cause();
    }
    // Asked to end, they may end so; who waits for one of them has heard.
    if (told_to_end()) early_leavers_.clear();
  }

  void end_the_others() {
    if (!failed_at_ || running_ == 0) return;
    const Steady::time_point now = Steady::now();
    if (!killed_ && now >= *failed_at_ + grace()) {
      killed_ = terminated_ = true;
      for (int i = 0; i < options_.num_processes; ++i) end(i, SIGKILL);
    } else if (!terminated_ && now >= *failed_at_ + grace() / 2) {
      terminated_ = true;
      for (int i = 0; i < options_.num_processes; ++i) end(i, SIGTERM);
    }
  }

  // Ends.

  AttemptResult give_up() {
    if (!unreachable_) output_.say(*given_up_);
    return {.end = unreachable_ ? AttemptResult::End::kUnreachable : AttemptResult::End::kFinal,
            .status = given_up_status_,
            .failure = *given_up_,
            .report = *given_up_,
            .lost_hosts = lost_hosts_};
  }

  AttemptResult ended_before_start() {
    if (timed_out_) {
      output_.say(fmt::format("the job failed: {}, while it waited for hosts: {}", describe_timeout(options_),
                              fmt::join(hosts_.missing(), ", ")));
      return {.end = AttemptResult::End::kToldToEnd, .status = kTimedOut};
    }
    output_.say(fmt::format("stopped by {}", signal_name(stop_signal_)));
    return {.end = AttemptResult::End::kToldToEnd, .status = 128 + stop_signal_};
  }

  AttemptResult finish() {
    if (trace_at_ && options_.trace_after > 0)
      output_.say(
          fmt::format("no trace was taken: this ended before --trace-after {} s", options_.trace_after));
    server_.settle_reports();
    look_for_the_cause();
    if (!cause_is_known()) {
      for (const std::string& line : watch_.finish(Steady::now())) output_.say(line);
    }
    using End = AttemptResult::End;
    if (timed_out_) {
      output_.say(closing_report(describe_timeout(options_), {}, fates_));
      return {.end = End::kToldToEnd, .status = kTimedOut};
    }
    if (!cause_is_known()) return {.end = stop_signal_ != 0 ? End::kToldToEnd : End::kFinal};
    if (stop_signal_ != 0) {
      output_.say(fmt::format("stopped by {}", signal_name(stop_signal_)));
      return {.end = End::kToldToEnd, .status = status()};
    }
    const std::string report = closing_report(failure_, causes_, fates_) + what_differs();
    keep_report(report);
    return {.end = End::kFailed,
            .status = status(),
            .failure = failure_,
            .report = report,
            .lost_hosts = lost_hosts_};
  }

  void keep_report(const std::string& words) {
    if (!options_.report_folder) return;
    FailureReport report{.job_id = job_.job_id,
                         .attempt = job_.attempt,
                         .words = words,
                         .difference = watch_.difference(),
                         .stacks = stacks_text_,
                         .processes = watch_.reports()};
    for (int i = 0; i < options_.num_processes; ++i) report.log_ends.emplace_back(output_.end_of(i));
    try {
      const auto place = write_failure_report(*options_.report_folder, report);
      output_.say(fmt::format("what each process did is in {}", place.string()));
    } catch (const Error& error) {
      output_.say(fmt::format("no report of the failure: {}", error.what()));
    }
  }

  std::string what_differs() const {
    const std::string difference = watch_.difference();
    return difference.empty() ? "" : "\n  " + difference;
  }

  // A cause that ended with status 0, or because the launcher made it, leaves it to the others to give a
  // status.
  int status() const {
    const auto speaks = [](const Fate& fate) { return !fate.outcome->success() && fate.sent_signal == 0; };
    for (const int i : causes_)
      if (speaks(fates_[i])) return fates_[i].outcome->status();
    const auto speaker = std::find_if(fates_.begin(), fates_.end(), speaks);
    if (speaker != fates_.end()) return speaker->outcome->status();
    return stop_signal_ != 0 ? 128 + stop_signal_ : kLauncherFailed;
  }

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

  int stop_signal_ = 0;        // the first that came
  bool asked_to_end_ = false;  // by INT or TERM; the next one kills
  std::vector<int> early_leavers_;
  Steady::time_point asked_at_;
  std::vector<int> causes_;  // the processes to blame
  std::string failure_;
  std::optional<Steady::time_point>
      failed_at_;  // since when the others' grace runs; none after a stop signal
  bool terminated_ = false, killed_ = false, timed_out_ = false;
};

Attempt::Attempt(const JobOptions& options, JobIdentity job, Signals& signals, Console& console,
                 JobStatus& status, const Descendants& descendants,
                 std::optional<Steady::time_point> deadline)
    : impl_(
          std::make_unique<Impl>(options, std::move(job), signals, console, status, descendants, deadline)) {}

Attempt::~Attempt() = default;

AttemptResult Attempt::run() { return impl_->run(); }

}  // namespace lockstep::cli
