// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts/local_host.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include "cli/base/descriptors.h"
#include "cli/base/signals.h"
#include "cli/children/core_shares.h"
#include "cli/hosts/job_variables.h"
#include "lockstep/base/cores.h"
#include "lockstep/base/cpu_quota.h"
#include "lockstep/base/limits.h"
#include "lockstep/watch/memory.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::milliseconds kOutputAfterEnd(
    200);  // for what grandchildren that hold the pipes still write
// A thread keeps its last 2,048 events: so 100,000 a second are not too many.
constexpr std::chrono::milliseconds kReadTrace(10);
constexpr std::chrono::milliseconds kLookForStacks(20);  // while a thread takes them
constexpr int kReadsAfterEnd = 16;  // more than a pipe holds, though grandchildren may write on

}  // namespace

LocalHost::LocalHost(HostListener& listener, const Descendants& descendants, bool give_stdin)
    : listener_(listener), descendants_(descendants), give_stdin_(give_stdin) {}

LocalHost::~LocalHost() {
  guard_.reset();
  if (finished_ || locals_.empty()) return;
  descendants_.kill_all();
  for (const Local& local : locals_) {
    if (local.child.out >= 0) close(local.child.out);
    if (local.child.err >= 0) close(local.child.err);
  }
}

void LocalHost::start(const HostJob& job) {
  if (!descriptors_suffice(job)) return;
  const std::vector<int> cores = usable_cores();
  const std::optional<double> quota = cpu_quota();
  const auto shares = job.bind ? share_cores(cores, job.on_host) : std::vector<std::vector<int>>();
  const int even_share = threads_per_process(static_cast<int>(cores.size()), job.on_host, quota);
  const bool limited = quota && *quota < static_cast<double>(cores.size());
  try {
    ChildOptions child;
    child.program = find_program(job.command.front());
    child.arguments = job.command;
    guard_.emplace(job_in_own_group(job));
    int place = job.first_on_host;
    for (const HostJob::Process& process : job.processes) {
      if (!shares.empty()) child.cores = shares[place];
      const int threads = shares.empty() || limited ? even_share : static_cast<int>(shares[place].size());
      auto variables = on_host(process.variables, place, job.on_host, threads);
      // Not those of a job around this one.
      variables[kHostCoresVariable] = shares.empty() ? "" : name_cores(cores);
      child.inherited = collector_.add(process.number);
      if (child.inherited < 0 && !std::exchange(unwatched_, true))
        listener_.remark(
            fmt::format("the processes' operations are missing from status, traces and reports of hangs: "
                        "cannot make {} bytes of shared memory to record them: {}",
                        sizeof(watch::Memory), describe_error(errno)));
      if (child.inherited >= 0) variables[watch::kDescriptorVariable] = std::to_string(child.inherited);
      child.environment = merged_environment(variables);
      start(process.number, child);
      if (child.inherited >= 0) close(child.inherited);
      collector_.started(process.number, locals_.back().child.pid);
      ++place;
    }
  } catch (const std::system_error& error) {
    finish();
    const int code = error.code().value();
    const std::string count = is_shortage(code) ? fmt::format(" as {} processes", job.processes.size()) : "";
    listener_.not_started(
        code, fmt::format("cannot run '{}'{}: {}", job.command.front(), count, describe_error(code)));
    return;
  }
  for (std::size_t i = 0; i < locals_.size(); ++i) {
    listener_.started(locals_[i].number, locals_[i].child.pid,
                      shares.empty() ? std::vector<int>() : shares[job.first_on_host + i]);
  }
}

bool LocalHost::reads_terminal() const { return give_stdin_ && isatty(STDIN_FILENO) == 1; }

// The id of the job, where one of its processes is to be in this process's group.
std::string LocalHost::job_in_own_group(const HostJob& job) const {
  if (!reads_terminal() || job.processes.front().number != 0) return "";
  const auto id = job.processes.front().variables.find("LOCKSTEP_JOB_ID");
  return id == job.processes.front().variables.end() ? "" : id->second;
}

void LocalHost::start(int number, ChildOptions& child) {
  const bool reads = give_stdin_ && number == 0;
  child.in = reads ? ChildOptions::In::kInherit : ChildOptions::In::kNull;
  // A process outside of the terminal's foreground group may not read from it.
  child.own_group = !(reads && reads_terminal());
  locals_.push_back({.number = number,
                     .child = start_child(child),
                     .running = true,
                     .guarded = child.own_group,
                     .group_of_launcher = !child.own_group});
  ++running_;
  if (child.own_group) guard_->watch(locals_.back().child.pid);
}

bool LocalHost::descriptors_suffice(const HostJob& job) {
  const long needed = static_cast<long>(job.processes.size()) * kDescriptorsOfAProcess + kOwnDescriptors;
  if (needed <= most_descriptors()) return true;
  listener_.not_started(EMFILE, describe_too_few(static_cast<long>(job.processes.size()), needed));
  return false;
}

void LocalHost::add_polled(std::vector<pollfd>& polled) const {
  for (const Local& local : locals_) {
    // poll passes over negative ones.
    polled.push_back({hold_output_ ? -1 : local.child.out, POLLIN, 0});
    polled.push_back({hold_output_ ? -1 : local.child.err, POLLIN, 0});
  }
}

void LocalHost::work(std::span<const pollfd> polled) {
  for (std::size_t i = 0; i < locals_.size() && 2 * i + 1 < polled.size(); ++i) {
    if (polled[2 * i].revents != 0) read_some(locals_[i], Stream::kOut);
    if (polled[2 * i + 1].revents != 0) read_some(locals_[i], Stream::kErr);
  }
  reap();
  report();
  trace();
  give_stacks();
  if (running_ > 0 || locals_.empty() || finished_) return;
  if (!ended_at_) ended_at_ = Steady::now();
  const bool still_written = std::any_of(locals_.begin(), locals_.end(), [](const Local& local) {
    return local.child.out >= 0 || local.child.err >= 0;
  });
  if (!still_written || Steady::now() >= *ended_at_ + kOutputAfterEnd) finish();
}

std::optional<Steady::time_point> LocalHost::next_work() const {
  if (stacks_.valid()) return Steady::now() + kLookForStacks;
  if (running_ > 0)
    return trace_clock_ == nullptr ? collector_.next_look() : std::min(collector_.next_look(), next_trace_);
  if (finished_ || !ended_at_) return std::nullopt;
  return *ended_at_ + kOutputAfterEnd;
}

bool LocalHost::open() const { return !locals_.empty() && !finished_; }

// One read; false when there is nothing to read now.
bool LocalHost::read_some(Local& local, Stream stream) {
  int& descriptor = stream == Stream::kOut ? local.child.out : local.child.err;
  if (descriptor < 0) return false;
  char buffer[64 * 1024];
  const ssize_t got = read(descriptor, buffer, sizeof(buffer));
  if (got > 0) {
    listener_.output(local.number, stream, std::string_view(buffer, got));
    return true;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  close(descriptor);
  descriptor = -1;
  listener_.output_ended(local.number, stream);
  return false;
}

// All children, for orphans of the processes are among them.
void LocalHost::reap() {
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    // Also told of: threads that stop because another thread of the launcher takes their stacks, and their
    // ends.
    if (!WIFEXITED(status) && !WIFSIGNALED(status)) continue;
    const auto local = std::find_if(locals_.begin(), locals_.end(),
                                    [&](const Local& one) { return one.running && one.child.pid == pid; });
    if (local == locals_.end()) continue;
    local->running = false;
    --running_;
    Outcome outcome;
    if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
    if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
    for (const Stream stream : {Stream::kOut, Stream::kErr}) {
      for (int i = 0; i < kReadsAfterEnd && read_some(*local, stream); ++i) {
      }
    }
    if (trace_clock_ != nullptr) trace(*local, /*unfinished=*/true);
    listener_.reported(collector_.last_words(local->number, outcome.describe()));
    listener_.ended(local->number, outcome);
  }
  // Processes that one has left behind in its group keep the group's id in use.
  for (Local& local : locals_) {
    if (!guard_ || local.running || !local.guarded || kill(-local.child.pid, 0) == 0 || errno != ESRCH)
      continue;
    guard_->forget(local.child.pid);
    local.guarded = false;
  }
}

void LocalHost::report() {
  if (running_ == 0 || Steady::now() < collector_.next_look()) return;
  for (watch::ProcessReport& report : collector_.look(std::exchange(with_logs_, false)))
    listener_.reported(std::move(report));
}

void LocalHost::take_stacks(std::chrono::milliseconds limit) {
  if (stacks_.valid()) return;
  std::vector<int> numbers, pids;
  for (const Local& local : locals_) {
    if (!local.running) continue;
    numbers.push_back(local.number);
    pids.push_back(collector_.pid(local.number));
  }
  stacks_ = std::async(std::launch::async, [numbers, pids, limit] {
    std::vector<ProcessStacks> all = cli::take_stacks(pids, {.limit = limit});
    TakenStacks taken;
    for (std::size_t i = 0; i < all.size(); ++i) taken.emplace_back(numbers[i], std::move(all[i]));
    return taken;
  });
}

void LocalHost::give_stacks() {
  if (!stacks_.valid() || stacks_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  for (auto& [process, stacks] : stacks_.get()) listener_.stacks_taken(process, std::move(stacks));
}

void LocalHost::begin_trace(std::shared_ptr<watch::TickClock> clock, std::chrono::milliseconds) {
  // Earlier events are not part of this trace.
  for (const Local& local : locals_) {
    TraceChunk before = collector_.events(local.number, *clock);
    before.events.clear();
    before.lost = 0;
    listener_.traced(std::move(before));
  }
  trace_clock_ = std::move(clock);
  next_trace_ = Steady::now() + kReadTrace;
}

void LocalHost::end_trace() {
  if (trace_clock_ == nullptr) return;
  for (const Local& local : locals_) {
    if (local.running) trace(local, /*unfinished=*/true);
  }
  trace_clock_.reset();
}

void LocalHost::trace() {
  if (trace_clock_ == nullptr || Steady::now() < next_trace_) return;
  for (const Local& local : locals_) {
    if (local.running) trace(local, /*unfinished=*/false);
  }
  next_trace_ = Steady::now() + kReadTrace;
}

void LocalHost::trace(const Local& local, bool unfinished) {
  TraceChunk chunk = collector_.events(local.number, *trace_clock_, unfinished);
  if (!chunk.events.empty() || chunk.lost > 0) listener_.traced(std::move(chunk));
}

// A batch system signals the launcher and also its agents; a terminal that closes sends HUP twice.
bool LocalHost::repeats(Local& local, int signal) {
  if (signal != SIGINT && signal != SIGTERM && signal != SIGHUP) return false;
  const Steady::time_point now = Steady::now();
  Steady::time_point& last = local.told_to_end[signal];
  if (now < last + kOneRequest) return true;
  last = now;
  return false;
}

void LocalHost::signal(int process, int signal, bool from_terminal) {
  for (Local& local : locals_) {
    if (local.number != process || !local.running || repeats(local, signal)) continue;
    if (local.group_of_launcher) {
      if (!from_terminal) kill(local.child.pid, signal);
    } else if (kill(-local.child.pid, signal) != 0) {
      kill(local.child.pid, signal);
    }
  }
}

void LocalHost::finish() {
  if (finished_ || locals_.empty()) return;
  finished_ = true;
  guard_.reset();
  descendants_.kill_all();
  for (Local& local : locals_) {
    local.running = false;
    for (auto [descriptor, stream] :
         {std::pair(&local.child.out, Stream::kOut), {&local.child.err, Stream::kErr}}) {
      if (*descriptor < 0) continue;
      while (read_some(local, stream)) {
      }
      if (*descriptor >= 0) close(*descriptor);
      *descriptor = -1;
    }
  }
  running_ = 0;
}

}  // namespace lockstep::cli
