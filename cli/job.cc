#include "cli/job.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <system_error>

#include "cli/child_process.h"
#include "cli/core_shares.h"
#include "cli/job_variables.h"
#include "cli/outcome.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "lockstep/base/fail.h"
#include "lockstep/coordination/server.h"

namespace lockstep::cli {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kOutputAfterEnd(200);  // for what grandchildren that hold the pipes still write
constexpr milliseconds kAskCoordinator(200);  // between two looks at what it knows of the processes

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(written);
    } else if (errno == EAGAIN) {
      pollfd writable{descriptor, POLLOUT, 0};
      poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

OutputTarget target_for(int descriptor) {
  OutputTarget target;
  target.write = [descriptor](std::string_view text) { write_all(descriptor, text); };
  const char* no_color = std::getenv("NO_COLOR");
  target.terminal = isatty(descriptor) == 1;
  target.color = target.terminal && (no_color == nullptr || *no_color == '\0');
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) target.columns = size.ws_col;
  return target;
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, HOST_NAME_MAX) == 0 ? name : "unknown";
}

std::string list(const std::vector<int>& numbers) { return fmt::format("{}", fmt::join(numbers, ",")); }

class Job {
 public:
  explicit Job(const JobOptions& options)
      : options_(options),
        output_(options.num_processes, target_for(STDOUT_FILENO), target_for(STDERR_FILENO)),
        children_(options.num_processes),
        fates_(options.num_processes) {
    if (options.log_folder) output_.keep_logs(*options.log_folder);
    coordination::ServerOptions server;
    server.num_processes = options.num_processes;
    auto set = [](milliseconds& timeout, const std::optional<int>& seconds) {
      if (seconds) timeout = std::chrono::seconds(*seconds);
    };
    set(server.heartbeat_timeout, options.heartbeat_timeout);
    set(server.register_timeout, options.initialization_timeout);
    set(server.shutdown_timeout, options.shutdown_timeout);
    server_.start(server);
  }

  ~Job() {
    for (const Child& child : children_) {
      if (child.out >= 0) close(child.out);
      if (child.err >= 0) close(child.err);
    }
  }

  int run() {
    if (const int status = start()) return status;
    while (anything_left()) {
      wait_for_something();
      for (const Signal& signal : signals_.take()) handle(signal);
      reap();
      ask_coordinator();
      end_the_others();
    }
    drain();
    return report();
  }

 private:
  // 0, or the exit status when the program cannot be started.
  int start() {
    const std::vector<int> cores = usable_cores();
    const auto shares =
        options_.bind ? share_cores(cores, options_.num_processes) : std::vector<std::vector<int>>();
    const JobIdentity job = new_job(server_.address(), options_.num_processes);
    ProcessSettings settings;
    settings.devices_per_process = options_.devices_per_process;
    settings.heartbeat_timeout = options_.heartbeat_timeout;
    settings.initialization_timeout = options_.initialization_timeout;
    settings.shutdown_timeout = options_.shutdown_timeout;
    settings.threads = threads_per_process(static_cast<int>(cores.size()), options_.num_processes);
    settings.terminal = isatty(STDOUT_FILENO) == 1;
    const bool terminal_in = isatty(STDIN_FILENO) == 1;
    try {
      ChildOptions child;
      child.program = find_program(options_.command.front());
      child.arguments = options_.command;
      for (int i = 0; i < options_.num_processes; ++i) {
        if (!shares.empty()) {
          child.cores = shares[i];
          settings.threads = static_cast<int>(shares[i].size());
        }
        child.environment = merged_environment(process_variables(job, settings, i));
        child.keep_stdin = i == 0;
        // A process outside of the terminal's foreground group may not read from it.
        child.own_group = !(i == 0 && terminal_in);
        children_[i] = start_child(child);
        fates_[i].pid = children_[i].pid;
        ++running_;
      }
      group_of_launcher_ = terminal_in;
    } catch (const std::system_error& error) {
      for (int i = 0; i < options_.num_processes; ++i) signal_process(i, SIGKILL);
      output_.say(fmt::format("cannot run '{}': {}", options_.command.front(), error.code().message()));
      return error.code() == std::errc::no_such_file_or_directory ? kNotFound : kNotExecutable;
    }
    if (options_.verbose) describe_start(job, shares, settings.threads);
    return 0;
  }

  void describe_start(const JobIdentity& job, const std::vector<std::vector<int>>& shares, int threads) {
    std::string places = "not bound to cores";
    if (!shares.empty()) {
      places = "on cores";
      for (std::size_t i = 0; i < shares.size(); ++i) places += fmt::format(" [{}] {}", i, list(shares[i]));
    }
    output_.say(fmt::format("job {}: {} process{}, coordinator {}, {}, {} thread{} each", job.job_id,
                            options_.num_processes, options_.num_processes == 1 ? "" : "es",
                            job.coordinator_address, places, threads, threads == 1 ? "" : "s"));
  }

  bool running(int i) const { return fates_[i].pid > 0 && !fates_[i].outcome; }

  bool anything_left() {
    if (running_ > 0) return true;
    if (!ended_at_) ended_at_ = Steady::now();
    const bool open = std::any_of(children_.begin(), children_.end(),
                                  [](const Child& child) { return child.out >= 0 || child.err >= 0; });
    return open && Steady::now() < *ended_at_ + kOutputAfterEnd;
  }

  void wait_for_something() {
    std::vector<pollfd> polled = {{signals_.descriptor(), POLLIN, 0}};
    std::vector<std::pair<int, Stream>> sources;
    for (int i = 0; i < options_.num_processes; ++i) {
      for (const auto& [descriptor, stream] :
           {std::pair(children_[i].out, Stream::kOut), {children_[i].err, Stream::kErr}}) {
        if (descriptor < 0) continue;
        polled.push_back({descriptor, POLLIN, 0});
        sources.emplace_back(i, stream);
      }
    }
    poll(polled.data(), polled.size(), static_cast<int>(time_to_wait().count()));
    for (std::size_t k = 0; k < sources.size(); ++k) {
      if (polled[k + 1].revents != 0) read_some(sources[k].first, sources[k].second);
    }
  }

  // -1: until something happens.
  milliseconds time_to_wait() const {
    std::optional<Steady::time_point> next;
    auto consider = [&](Steady::time_point time) { next = next ? std::min(*next, time) : time; };
    if (running_ == 0 && ended_at_) consider(*ended_at_ + kOutputAfterEnd);
    if (failed_at_ && running_ > 0) consider(*failed_at_ + (terminated_ ? grace() : grace() / 2));
    if (!failed_at_ && running_ > 0 && coordinated()) consider(asked_at_ + kAskCoordinator);
    if (!next) return milliseconds(-1);
    return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(*next - Steady::now()));
  }

  milliseconds grace() const { return milliseconds(static_cast<long>(options_.grace * 1000)); }

  // One read; false when there is nothing to read now.
  bool read_some(int i, Stream stream) {
    int& descriptor = stream == Stream::kOut ? children_[i].out : children_[i].err;
    if (descriptor < 0) return false;
    char buffer[64 * 1024];
    const ssize_t got = read(descriptor, buffer, sizeof(buffer));
    if (got > 0) {
      output_.feed(i, stream, std::string_view(buffer, got));
      return true;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    close(descriptor);
    descriptor = -1;
    output_.finish(i, stream);
    return false;
  }

  void handle(const Signal& signal) {
    switch (signal.number) {
      case SIGCHLD:
        return;  // reap() looks at all of them anyway
      case SIGINT:
      case SIGTERM:
        if (stop_signal_ != 0) return kill_all();
        stop_signal_ = signal.number;
        return pass_on(signal);
      case SIGTSTP:
        pass_on(signal);
        raise(SIGSTOP);
        return;
      default:
        return pass_on(signal);
    }
  }

  void pass_on(const Signal& signal) {
    for (int i = 0; i < options_.num_processes; ++i) {
      const bool has_it = i == 0 && group_of_launcher_ && signal.from_terminal;
      if (!has_it) signal_process(i, signal.number);
    }
  }

  void kill_all() {
    for (int i = 0; i < options_.num_processes; ++i) end(i, SIGKILL);
  }

  void signal_process(int i, int signal) {
    if (!running(i)) return;
    const bool own_group = !(i == 0 && group_of_launcher_);
    if (!own_group || kill(-fates_[i].pid, signal) != 0) kill(fates_[i].pid, signal);
  }

  void end(int i, int signal) {
    if (!running(i)) return;
    fates_[i].sent_signal = signal;
    signal_process(i, signal);
  }

  void reap() {
    std::vector<int> ended;
    std::vector<Outcome> outcomes;
    for (int i = 0; i < options_.num_processes; ++i) {
      if (!running(i)) continue;
      int status = 0;
      if (waitpid(fates_[i].pid, &status, WNOHANG) != fates_[i].pid) continue;
      Outcome outcome;
      if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
      if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
      fates_[i].outcome = outcome;
      --running_;
      while (read_some(i, Stream::kOut)) {
      }
      while (read_some(i, Stream::kErr)) {
      }
      ended.push_back(i);
      outcomes.push_back(outcome);
    }
    if (ended.empty()) return;
    const std::size_t first = likeliest_cause(outcomes);
    std::swap(ended[0], ended[first]);
    for (int i : ended) {
      if (fates_[i].outcome->success()) {
        left_in_peace(i);
      } else {
        failed(i);
      }
    }
  }

  void failed(int i) {
    // It may only have followed one that the coordinator gave up.
    if (!failed_at_) blame_whom_the_coordinator_blames();
    const std::string what = describe_failure(i, options_.num_processes, host_, fates_[i]);
    if (!failed_at_) blame(i, what);
    server_.report_task_failure(i, what);
  }

  void blame(int i, const std::string& what) {
    cause_ = i;
    failure_ = what;
    failed_at_ = Steady::now();
    if (stop_signal_ == 0 && running_ > 0) output_.say(fmt::format("{}; telling the others", what));
  }

  // Ended with status 0: fine, unless it was, or should have become, a member of the job that others wait
  // for.
  void left_in_peace(int i) {
    if (!failed_at_) early_leavers_.push_back(i);
  }

  // A job of one process has nobody to wait for.
  bool coordinated() const { return options_.num_processes > 1; }

  void ask_coordinator() {
    const Steady::time_point now = Steady::now();
    if (failed_at_ || running_ == 0 || !coordinated() || now < asked_at_ + kAskCoordinator) return;
    asked_at_ = now;
    blame_whom_the_coordinator_blames();
    look_for_early_leavers();
  }

  // A process that runs but is given up: stopped or stuck without a heartbeat, or its peers did not come in
  // time.
  void blame_whom_the_coordinator_blames() {
    for (const coordination::TaskInfo& task : server_.tasks()) {
      if (task.state != coordination::TaskState::kError || !running(task.task)) continue;
      return blame(task.task, fmt::format("process {} of {} (host {}, pid {}) was given up: {}", task.task,
                                          options_.num_processes, host_, fates_[task.task].pid, task.error));
    }
  }

  void look_for_early_leavers() {
    if (early_leavers_.empty() || failed_at_) return;
    const std::vector<coordination::TaskInfo> tasks = server_.tasks();
    const bool others_came = std::any_of(tasks.begin(), tasks.end(), [&](const coordination::TaskInfo& task) {
      return task.incarnation != 0 && running(task.task);
    });
    for (int i : early_leavers_) {
      if (!others_came || tasks[i].state == coordination::TaskState::kDisconnected) continue;
      const std::string what = fmt::format(
          "process {} of {} (host {}, pid {}) ended with status 0 without {}", i, options_.num_processes,
          host_, fates_[i].pid, tasks[i].incarnation == 0 ? "initialize()" : "shutdown()");
      server_.report_task_failure(i, what);
      return blame(i, what);
    }
  }

  void end_the_others() {
    if (!failed_at_ || running_ == 0) return;
    const Steady::time_point now = Steady::now();
    if (!killed_ && now >= *failed_at_ + grace()) {
      killed_ = terminated_ = true;
      kill_all();
    } else if (!terminated_ && now >= *failed_at_ + grace() / 2) {
      terminated_ = true;
      for (int i = 0; i < options_.num_processes; ++i) end(i, SIGTERM);
    }
  }

  void drain() {
    for (int i = 0; i < options_.num_processes; ++i) {
      output_.finish(i, Stream::kOut);
      output_.finish(i, Stream::kErr);
    }
  }

  int report() {
    if (!cause_) return 0;
    if (stop_signal_ != 0) {
      output_.say(fmt::format("stopped by {}", signal_name(stop_signal_)));
    } else {
      output_.say(closing_report(failure_, *cause_, fates_));
    }
    // A cause that ended with status 0, or because the launcher made it, leaves it to the others to give a
    // status.
    const auto speaks = [](const Fate& fate) { return !fate.outcome->success() && fate.sent_signal == 0; };
    if (speaks(fates_[*cause_])) return fates_[*cause_].outcome->status();
    const auto speaker = std::find_if(fates_.begin(), fates_.end(), speaks);
    return speaker == fates_.end() ? kLauncherFailed : speaker->outcome->status();
  }

  const JobOptions options_;
  Signals signals_;  // before the server, whose threads must not get them
  Output output_;
  coordination::CoordinationServer server_;
  const std::string host_ = host_name();

  std::vector<Child> children_;
  std::vector<Fate> fates_;
  int running_ = 0;
  bool group_of_launcher_ = false;  // process 0 is in the launcher's process group

  int stop_signal_ = 0;
  std::vector<int> early_leavers_;
  Steady::time_point asked_at_;
  std::optional<int> cause_;
  std::string failure_;
  std::optional<Steady::time_point> failed_at_, ended_at_;
  bool terminated_ = false, killed_ = false;
};

}  // namespace

int run_job(const JobOptions& options) { return Job(options).run(); }

}  // namespace lockstep::cli
