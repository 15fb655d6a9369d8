// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/hosts/collector.h"
#include "cli/run/attempt_impl.h"
#include "cli/run/failure_report.h"
#include "lockstep/base/error.h"
#include "lockstep/coordination/protocol/graces.h"

// The failures of an attempt, the processes that it waits for, and its end.
namespace lockstep::cli {

using coordination::FailureKind;
using std::chrono::milliseconds;
namespace graces = coordination::graces;

namespace {

constexpr milliseconds kWordInterval(10000);  // between two words on who is waited for

}  // namespace

void Attempt::Impl::judge_ended() {
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

void Attempt::Impl::failed(int i) {
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

void Attempt::Impl::look_for_the_cause() {
  if (cause_is_known()) return;
  const auto first = server_.first_failure();
  if (first && !(told_to_end() && first->kind == FailureKind::kLeftEarly)) blame(*first);
}

void Attempt::Impl::blame(const coordination::Failure& first) {
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

void Attempt::Impl::ask_coordinator() {
  const Steady::time_point now = Steady::now();
  if (cause_is_known() || running_ == 0 || !coordinated() || now < asked_at_ + graces::kLauncherLooks) return;
  asked_at_ = now;
  look_for_early_leavers();
  look_for_the_cause();
  say_which_processes_are_missing();
}

// Stalls.

void Attempt::Impl::look_for_stalls() {
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

void Attempt::Impl::stalled(const watch::JobWatch::Failure& failure) {
  if (running_ == 0) return;  // it has gone on and ended since
  server_.report_task_failure(failure.processes.front(), failure.message,
                              failure.diverged ? FailureKind::kDiverged : FailureKind::kStalled);
  look_for_the_cause();
}

// Waiting for others.

milliseconds Attempt::Impl::word_interval() const {
  return std::min(kWordInterval, milliseconds(time_to_initialize(options_)) / 3);
}

std::optional<long> Attempt::Impl::time_for_a_word() {
  const Steady::time_point now = Steady::now();
  if (now < word_at_ + word_interval()) return std::nullopt;
  word_at_ = now;
  return std::chrono::duration_cast<std::chrono::seconds>(now - waiting_since_).count();
}

void Attempt::Impl::say_which_hosts_are_missing() {
  const auto waited = hosts_.ready() ? std::nullopt : time_for_a_word();
  if (!waited) return;
  const std::vector<std::string> missing = hosts_.missing();
  output_.say(fmt::format("waiting for hosts: {} of {} have answered after {} s; missing: {}",
                          hosts_.agents() - missing.size(), hosts_.agents(), *waited,
                          name_some_hosts(missing)));
}

void Attempt::Impl::say_which_processes_are_missing() {
  const auto waited = all_came_ ? std::nullopt : time_for_a_word();
  if (!waited) return;
  std::vector<int> missing;
  for (const coordination::TaskInfo& task : server_.tasks()) {
    if (task.incarnation == 0) missing.push_back(task.task);
  }
  all_came_ = missing.empty();
  const int came = options_.num_processes - static_cast<int>(missing.size());
  if (all_came_ || came == 0 || watch_.says_who_has_not_come()) return;
  output_.say(fmt::format("waiting for processes: {} of {} have called initialize() after {} s; missing: {}",
                          came, options_.num_processes, *waited,
                          name_by_host(missing, hosts_.host_of_process())));
}

void Attempt::Impl::look_for_early_leavers() {
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

void Attempt::Impl::end_the_others() {
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

AttemptResult Attempt::Impl::give_up() {
  return {.end = unreachable_ ? AttemptResult::End::kUnreachable : AttemptResult::End::kNotStarted,
          .status = given_up_status_,
          .failure = *given_up_,
          .report = *given_up_,
          .lost_hosts = lost_hosts_};
}

AttemptResult Attempt::Impl::ended_before_start() {
  if (timed_out_) {
    output_.say(fmt::format("the job failed: {}, while it waited for hosts: {}", describe_timeout(options_),
                            name_some_hosts(hosts_.missing())));
    return {.end = AttemptResult::End::kToldToEnd, .status = kTimedOut};
  }
  output_.say(fmt::format("stopped by {}", signal_name(stop_signal_)));
  return {.end = AttemptResult::End::kToldToEnd, .status = 128 + stop_signal_};
}

AttemptResult Attempt::Impl::finish() {
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

void Attempt::Impl::keep_report(const std::string& words) {
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

std::string Attempt::Impl::what_differs() const {
  const std::string difference = watch_.difference();
  return difference.empty() ? "" : "\n  " + difference;
}

int Attempt::Impl::status() const {
  const auto speaks = [](const Fate& fate) { return !fate.outcome->success() && fate.sent_signal == 0; };
  for (const int i : causes_)
    if (speaks(fates_[i])) return fates_[i].outcome->status();
  const auto speaker = std::find_if(fates_.begin(), fates_.end(), speaks);
  if (speaker != fates_.end()) return speaker->outcome->status();
  return stop_signal_ != 0 ? 128 + stop_signal_ : kLauncherFailed;
}

}  // namespace lockstep::cli
