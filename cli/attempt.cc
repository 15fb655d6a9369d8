#include "cli/attempt.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <optional>
#include <system_error>

#include "cli/core_shares.h"
#include "cli/job_hosts.h"
#include "cli/outcome.h"
#include "cli/output.h"
#include "lockstep/base/environment.h"
#include "lockstep/coordination/graces.h"
#include "lockstep/coordination/server.h"

namespace lockstep::cli {
namespace {

using coordination::FailureKind;
using std::chrono::milliseconds;
namespace graces = coordination::graces;

constexpr milliseconds kOneWait(500);  // for a reader of our output, before the agents are told that we live

// `idle` is called now and then while the reader does not read.
void write_all(int descriptor, std::string_view text, const std::function<void()>& idle) {
  while (!text.empty()) {
    pollfd writable{descriptor, POLLOUT, 0};
    if (poll(&writable, 1, kOneWait.count()) == 0) {
      idle();
      continue;
    }
    // Not more than a pipe surely takes, for the descriptor may block.
    const ssize_t written = write(descriptor, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written > 0) {
      text.remove_prefix(written);
    } else if (errno != EINTR && errno != EAGAIN) {
      return;
    }
  }
}

OutputTarget target_for(int descriptor, std::function<void()> idle) {
  OutputTarget target;
  target.write = [descriptor, idle = std::move(idle)](std::string_view text) {
    write_all(descriptor, text, idle);
  };
  const char* no_color = std::getenv("NO_COLOR");
  target.terminal = isatty(descriptor) == 1;
  target.color = target.terminal && (no_color == nullptr || *no_color == '\0');
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) target.columns = size.ws_col;
  return target;
}

const char* plural(int count, const char* one, const char* many) { return count == 1 ? one : many; }

}  // namespace

class Attempt::Impl : HostListener {
 public:
  Impl(const JobOptions& options, JobIdentity job, Signals& signals, bool report)
      : options_(options),
        job_(std::move(job)),
        signals_(signals),
        report_(report),
        hosts_(options, *this),
        output_(options.num_processes,
                hosts_.several() ? hosts_.host_of_process() : std::vector<std::string>(),
                target_for(STDOUT_FILENO, [this] { hosts_.keep_alive(); }),
                target_for(STDERR_FILENO, [this] { hosts_.keep_alive(); })),
        fates_(options.num_processes),
        cores_(options.num_processes) {
    if (options.log_folder) output_.keep_logs(*options.log_folder, job_.attempt);
  }

  AttemptResult run() {
    while (!hosts_.ready() && !given_up_ && stop_signal_ == 0) turn();
    if (given_up_) return give_up();
    if (stop_signal_ != 0) return stopped_before_start();
    serve();
    start();
    while (!given_up_ && (running_ > 0 || hosts_.open())) {
      turn();
      judge_ended();
      ask_coordinator();
      end_the_others();
    }
    if (given_up_) return give_up();
    for (int i = 0; i < options_.num_processes; ++i) {
      output_.finish(i, Stream::kOut);
      output_.finish(i, Stream::kErr);
    }
    return finish();
  }

  void say(const std::string& line) { output_.say(line); }

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
    ProcessSettings settings;
    settings.devices_per_process = options_.devices_per_process;
    settings.heartbeat_timeout = options_.heartbeat_timeout;
    settings.initialization_timeout = options_.initialization_timeout;
    settings.shutdown_timeout = options_.shutdown_timeout;
    settings.interface = options_.interface;
    settings.terminal = isatty(STDOUT_FILENO) == 1;
    std::map<std::string, std::string> common = options_.variables;
    if (hosts_.several() || options_.by == JobOptions::By::kSlurm) common.merge(travelling_variables());
    running_ = options_.num_processes;
    hosts_.start([&](int process) {
      std::map<std::string, std::string> variables = process_variables(job_, settings, process);
      variables.merge(std::map(common));
      return variables;
    });
  }

  // Waits for something to happen, and takes it in.
  void turn() {
    std::vector<pollfd> polled = {{signals_.descriptor(), POLLIN, 0}};
    hosts_.add_polled(polled);
    poll(polled.data(), polled.size(), static_cast<int>(time_to_wait().count()));
    for (const Signal& signal : signals_.take()) handle(signal);
    hosts_.work(std::span(polled).subspan(1));
  }

  // -1: until something happens.
  milliseconds time_to_wait() const {
    std::optional<Steady::time_point> next = hosts_.next_work();
    auto consider = [&](Steady::time_point time) { next = next ? std::min(*next, time) : time; };
    if (failed_at_ && running_ > 0) consider(*failed_at_ + (terminated_ ? grace() : grace() / 2));
    if (!failed_at_ && running_ > 0 && coordinated()) consider(asked_at_ + graces::kLauncherLooks);
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
    --running_;
    ended_.push_back(process);
  }
  void not_started(int error, const std::string& what) override {
    if (given_up_) return;
    const std::error_code code(error, std::generic_category());
    given_up_ = fmt::format("{}: {}", what, code.message());
    given_up_status_ = code == std::errc::no_such_file_or_directory ? kNotFound : kNotExecutable;
  }
  void unreachable(const std::string& why) override {
    if (given_up_) return;
    given_up_ = why;
    given_up_status_ = kLauncherFailed;
  }
  void remark(const std::string& line) override { output_.say(line); }

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
        return;  // the hosts look at all their children anyway
      case SIGINT:
      case SIGTERM:
        if (stop_signal_ != 0) {
          for (int i = 0; i < options_.num_processes; ++i) end(i, SIGKILL);
          return;
        }
        stop_signal_ = signal.number;
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
        if (!failed_at_) early_leavers_.push_back(i);
      } else {
        failed(i);
      }
    }
  }

  // The coordinator knows what came first: this end, or what others reported before it.
  void failed(int i) {
    look_for_early_leavers();
    const Outcome& outcome = *fates_[i].outcome;
    const bool by_itself = outcome.lost.empty() && (outcome.signal == 0 || outcome.signal == SIGABRT);
    server_.report_task_failure(i, fmt::format("{} {}", name(i), outcome.describe()),
                                by_itself ? FailureKind::kEndedWithError : FailureKind::kDied);
    look_for_the_cause();
  }

  void look_for_the_cause() {
    if (failed_at_) return;
    if (const auto first = server_.first_failure()) blame(*first);
  }

  void blame(const coordination::Failure& first) {
    causes_ = first.processes;
    failure_ = first.message.substr(0, first.message.find("\nconsequence: "));
    failed_at_ = Steady::now();
    if (stop_signal_ == 0 && running_ > 0) output_.say(fmt::format("{}; telling the others", failure_));
  }

  // A job of one process has nobody to wait for.
  bool coordinated() const { return options_.num_processes > 1; }

  void ask_coordinator() {
    const Steady::time_point now = Steady::now();
    if (failed_at_ || !coordinated() || now < asked_at_ + graces::kLauncherLooks) return;
    asked_at_ = now;
    look_for_early_leavers();
    look_for_the_cause();
  }

  // Ended with status 0: fine, unless it was, or should have become, a member of the job that others wait
  // for.
  void look_for_early_leavers() {
    if (early_leavers_.empty() || failed_at_) return;
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
      return look_for_the_cause();
    }
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
    output_.say(*given_up_);
    return {.status = given_up_status_};
  }

  AttemptResult stopped_before_start() {
    output_.say(fmt::format("stopped by {}", signal_name(stop_signal_)));
    return {.status = 128 + stop_signal_};
  }

  AttemptResult finish() {
    server_.settle_reports();
    look_for_the_cause();
    if (causes_.empty()) return {.status = 0};
    if (stop_signal_ != 0) {
      output_.say(fmt::format("stopped by {}", signal_name(stop_signal_)));
    } else if (report_) {
      output_.say(closing_report(failure_, causes_, fates_));
    }
    return {.status = status(), .failed = stop_signal_ == 0, .failure = failure_};
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
  const bool report_;
  JobHosts hosts_;
  Output output_;
  coordination::CoordinationServer server_;

  std::vector<Fate> fates_;
  std::vector<std::vector<int>> cores_;
  std::vector<int> ended_;  // since judge_ended looked last
  int running_ = 0, started_ = 0;
  std::optional<std::string> given_up_;  // why nothing could be started
  int given_up_status_ = 0;

  int stop_signal_ = 0;
  std::vector<int> early_leavers_;
  Steady::time_point asked_at_;
  std::vector<int> causes_;
  std::string failure_;
  std::optional<Steady::time_point> failed_at_;
  bool terminated_ = false, killed_ = false;
};

Attempt::Attempt(const JobOptions& options, JobIdentity job, Signals& signals, bool report)
    : impl_(std::make_unique<Impl>(options, std::move(job), signals, report)) {}

Attempt::~Attempt() = default;

AttemptResult Attempt::run() { return impl_->run(); }

void Attempt::say(const std::string& line) { impl_->say(line); }

}  // namespace lockstep::cli
