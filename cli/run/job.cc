// SPDX-License-Identifier: Apache-2.0
#include "cli/run/job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>

#include "cli/base/console.h"
#include "cli/base/descriptors.h"
#include "cli/base/signals.h"
#include "cli/base/words.h"
#include "cli/children/descendants.h"
#include "cli/hosts/job_variables.h"
#include "cli/hosts/process_host.h"
#include "cli/run/attempt.h"
#include "cli/run/job_status.h"
#include "lockstep/base/error.h"
#include "lockstep/base/limits.h"

namespace lockstep::cli {
namespace {

// How long, once the job was told to end, the last lines wait for a reader who takes nothing.
constexpr std::chrono::seconds kUntilReaderIsGivenUp(2);

constexpr std::chrono::seconds kBetweenTriesForAHost(1);

// The pause before a restart that could not be started is tried again; it doubles.
constexpr std::chrono::milliseconds kShortestPause(500), kLongestPause(10'000);

// Needs of the coordinator, the server of requests, traces and stacks: gRPC hangs if they are not met.
constexpr int kThreads = 16;
constexpr std::size_t kMegabytes = 640;

class Job {
 public:
  explicit Job(JobOptions options)
      : options_(std::move(options)),
        restarts_(options_.max_restarts, std::chrono::seconds(options_.restart_delay)),
        identity_(new_job(options_.num_processes)),
        status_(options_, identity_.job_id) {
    // Not on the board: the page's address has its token.
    for (const std::string& line : status_.words(console_.err().terminal))
      console_.err().write(own_line("lockstep", line));
    if (options_.timeout) deadline_ = Steady::now() + std::chrono::seconds(*options_.timeout);
    if (!options_.hosts.empty()) place();
  }

  int run() {
    while (true) {
      const Steady::time_point started = Steady::now();
      const AttemptResult result = run_attempt();
      told_to_end_ = result.end == AttemptResult::End::kToldToEnd;
      if (result.end == AttemptResult::End::kFinal || told_to_end_) return result.status;
      bool again = false;
      if (result.end == AttemptResult::End::kUnreachable) again = goes_around_or_waits(result);
      if (result.end == AttemptResult::End::kNotStarted) {
        if (!may_start_later(result)) return told_to_end_ ? end_status_ : cannot_start(result);
        again = true;
      } else {
        not_started_since_.reset();
      }
      if (!again) {
        const bool was_there = result.end == AttemptResult::End::kFailed || identity_.attempt > 0;
        if (!was_there || !restarts_.take(started, Steady::now())) return give_up(result);
        start_again(result);
      }
      if (told_to_end_) return end_status_;
    }
  }

  // The readers of the output may be slower than the job.
  void write_the_rest() {
    status_.board().set_state("ended");
    status_.publish();
    console_.work();
    while (!console_.empty()) {
      std::vector<pollfd> polled = {{signals_.descriptor(), POLLIN, 0}};
      console_.add_polled(polled);
      poll(polled.data(), polled.size(), told_to_end_ ? 100 : -1);
      take_signals();
      console_.work();
      if (told_to_end_ && Steady::now() >= console_.stuck_since() + kUntilReaderIsGivenUp) return;
    }
  }

 private:
  void say(const std::string& line) {
    status_.board().said(line);
    console_.err().write(own_line("lockstep", line));
  }

  AttemptResult run_attempt() {
    try {
      return Attempt(options_, identity_, signals_, console_, status_, descendants_, deadline_).run();
    } catch (const std::exception& error) {  // such as that the disk is full, or no thread can be started
      if (identity_.attempt == 0) throw;
      return {.end = AttemptResult::End::kNotStarted,
              .status = kLauncherFailed,
              .failure = error.what(),
              .report = error.what()};
    }
  }

  // Pauses, longer each time, and returns whether to try again. What could be started before may come back: a
  // program that is being replaced, a file system, room for processes.
  bool may_start_later(const AttemptResult& result) {
    if (identity_.attempt == 0) return false;
    const Steady::time_point now = Steady::now();
    const std::chrono::seconds most = time_to_initialize(options_);
    if (!not_started_since_) {
      not_started_since_ = now;
      next_pause_ = kShortestPause;
      say(fmt::format("{}; trying again for at most {} s (this does not count as a restart)", result.failure,
                      most.count()));
    }
    if (now >= *not_started_since_ + most) return false;
    pause(std::exchange(next_pause_, std::min(2 * next_pause_, kLongestPause)));
    return !told_to_end_;
  }

  int cannot_start(const AttemptResult& result) {
    say(result.report);
    say_what_came_before();
    return result.status;
  }

  // Places the processes on hosts that are not known to be lost, where these suffice.
  void place() {
    const auto around = place_around(options_.hosts, options_.num_processes, lost_);
    if (!around) lost_.clear();
    options_.placements = around ? *around : place_processes(options_.hosts, options_.num_processes);
  }

  bool loses(const std::set<std::string>& hosts) {
    lost_.insert(hosts.begin(), hosts.end());
    if (options_.hosts.empty()) return false;
    place();
    return !hosts.empty() && !lost_.empty();
  }

  // A host did not answer before anything was started on it: whether to try once more without a restart, on
  // other hosts or because it is to be waited for.
  bool goes_around_or_waits(const AttemptResult& result) {
    if (options_.wait_for_hosts == 0 && identity_.attempt == 0) return false;
    if (loses(result.lost_hosts)) {
      say(fmt::format("{}; {}", result.failure, name_placements()));
      return true;
    }
    const Steady::time_point now = Steady::now();
    if (!waiting_since_) {
      if (options_.wait_for_hosts > 0)
        say(fmt::format("{}; waiting for it, at most {} s", result.failure, options_.wait_for_hosts));
      waiting_since_ = now;
    }
    if (now >= *waiting_since_ + std::chrono::seconds(options_.wait_for_hosts)) {
      waiting_since_.reset();
      return false;
    }
    pause(kBetweenTriesForAHost);
    return true;
  }

  std::string name_placements() const {
    std::string names;
    for (const Placement& place : options_.placements) {
      names += fmt::format("{}{}:{}", names.empty() ? "" : ",", without_user(place.host), place.count);
    }
    return "the processes go to " + names;
  }

  int give_up(const AttemptResult& result) {
    std::string after;
    if (identity_.attempt > 0) after = "\n  no restart is left: this was " + restarts_.describe();
    say(result.report + after);
    if (result.end == AttemptResult::End::kUnreachable) say_what_came_before();
    return result.status;
  }

  // The last line of a restart that did not begin: why there was one.
  void say_what_came_before() {
    if (first_failure_.empty()) return;
    say(fmt::format("the job failed: {}; restart {} did not begin", first_failure_, identity_.attempt));
  }

  void start_again(const AttemptResult& result) {
    ++identity_.attempt;
    if (first_failure_.empty()) first_failure_ = result.failure;
    waiting_since_.reset();
    const bool elsewhere = loses(result.lost_hosts);
    const std::chrono::seconds wait = restarts_.wait();
    say(fmt::format("{}; starting all again{}: {}{}", result.failure,
                    wait.count() > 0 ? fmt::format(" in {} s", wait.count()) : "", restarts_.describe(),
                    elsewhere ? "; " + name_placements() : ""));
    pause(wait);
  }

  void take_signals() {
    for (const Signal& signal : signals_.take()) {
      if (signal.number == SIGTSTP) raise(SIGSTOP);
      if (signal.number != SIGINT && signal.number != SIGTERM && signal.number != SIGHUP) continue;
      told_to_end_ = true;
      end_status_ = 128 + signal.number;
      reason_ = fmt::format("stopped by {}", signal_name(signal.number));
    }
  }

  // Between two starts. Ends early, with its reason said, where the job is to end.
  void pause(std::chrono::milliseconds time) {
    Steady::time_point until = Steady::now() + time;
    if (deadline_) until = std::min(until, *deadline_);
    status_.board().set_state("waiting to start again");
    while (!told_to_end_ && Steady::now() < until) {
      std::vector<pollfd> polled = {{signals_.descriptor(), POLLIN, 0}, status_.polled()};
      console_.add_polled(polled);
      const auto left = std::min(until, status_.next_work()) - Steady::now();
      poll(polled.data(), polled.size(),
           static_cast<int>(std::max<long>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count())));
      take_signals();
      console_.work();
      status_.work();
    }
    if (!told_to_end_ && deadline_ && Steady::now() >= *deadline_) {
      told_to_end_ = true;
      end_status_ = kTimedOut;
      reason_ = "the job failed: " + describe_timeout(options_);
    }
    if (told_to_end_) say(reason_);
  }

  JobOptions options_;
  Restarts restarts_;
  JobIdentity identity_;
  // Before the threads of the coordinator, which must not get them.
  Signals signals_;
  const Descendants descendants_;
  Console console_;
  JobStatus status_;
  std::optional<Steady::time_point> deadline_;
  std::set<std::string> lost_;                       // hosts, as the user named them
  std::optional<Steady::time_point> waiting_since_;  // for a host, since the last restart
  std::optional<Steady::time_point> not_started_since_;
  std::chrono::milliseconds next_pause_ = kShortestPause;
  std::string first_failure_;  // of the start before the restarts
  bool told_to_end_ = false;   // by a signal or at the deadline
  int end_status_ = 0;         // then
  std::string reason_;
};

}  // namespace

std::string describe_timeout(const JobOptions& options) {
  return fmt::format("it took longer than --timeout {} s", *options.timeout);
}

std::chrono::seconds time_to_initialize(const JobOptions& options) {
  return std::chrono::seconds(
      options.initialization_timeout.value_or(options::kInitializationTimeout.otherwise));
}

int run_job(const JobOptions& options) {
  let_writes_fail();
  raise_descriptor_limit();
  require_address_space(kMegabytes, "the launcher");
  require_threads(kThreads, "the launcher");
  Job job(options);
  try {
    const int status = job.run();
    job.write_the_rest();
    return status;
  } catch (...) {
    job.write_the_rest();
    throw;
  }
}

}  // namespace lockstep::cli
