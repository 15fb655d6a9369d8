// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/state/barrier_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/text.h"

namespace lockstep::coordination {
namespace {

constexpr std::int64_t kLongestTimeoutMs = std::int64_t{365} * 24 * 3600 * 1000;

std::string name_set(const std::vector<int>& tasks, int num_tasks) {
  if (tasks.empty()) return fmt::format("all {} processes", num_tasks);
  return name_processes(tasks, num_tasks);
}

/// The tasks of a request in order; empty: all.
std::vector<int> set_of(const std::vector<int>& tasks, int num_tasks) {
  std::vector<int> set = tasks;
  std::ranges::sort(set);
  return static_cast<int>(set.size()) == num_tasks ? std::vector<int>() : set;
}

}  // namespace

Status BarrierTable::error(Code code, const std::string& id, std::int64_t counter, const std::string& why,
                           std::optional<int> source) const {
  Status status = Status::of_service(
      code, fmt::format("barrier '{}' (instance {}) failed: {}", shown(id), counter, why), source);
  status.barrier = BarrierInstance{id, counter};
  return status;
}

bool BarrierTable::takes_part(const Barrier& barrier, int task) const {
  if (barrier.of_all) return task >= 0 && task < num_tasks_;
  return barrier.tasks && std::ranges::binary_search(*barrier.tasks, task);
}

std::size_t BarrierTable::members(const Barrier& barrier) const {
  return barrier.of_all ? static_cast<std::size_t>(num_tasks_) : barrier.tasks->size();
}

std::vector<int> BarrierTable::missing(const Barrier& barrier) const {
  std::vector<int> absent;
  for (int task = 0; task < num_tasks_; ++task) {
    if (takes_part(barrier, task) && !barrier.arrived.contains(task)) absent.push_back(task);
  }
  return absent;
}

void BarrierTable::tell_failed(const std::string& id, const Barrier& barrier, FailureKind kind,
                               const std::vector<int>& because_of, const std::string& why) const {
  std::vector<int> members = barrier.of_all ? std::vector<int>() : *barrier.tasks;
  listener_.failed(
      {id, kind, because_of, std::move(members), fmt::format("barrier '{}' failed: {}", shown(id), why)});
}

std::string BarrierTable::why_invalid(const BarrierCall& request, const Barrier& barrier) const {
  std::vector<int> tasks = request.tasks;
  std::ranges::sort(tasks);
  if (std::ranges::adjacent_find(tasks) != tasks.end()) {
    return fmt::format("process {} lists a process twice", request.source);
  }
  if (!tasks.empty() && (tasks.front() < 0 || tasks.back() >= num_tasks_)) {
    return fmt::format("process {} lists process {}, but the job has processes 0 to {}", request.source,
                       tasks.front() < 0 ? tasks.front() : tasks.back(), num_tasks_ - 1);
  }
  const bool of_all = tasks.empty() || static_cast<int>(tasks.size()) == num_tasks_;
  if (of_all) tasks.clear();
  const bool among = of_all ? request.source >= 0 && request.source < num_tasks_
                            : std::ranges::binary_search(tasks, request.source);
  if (!among) {
    return fmt::format("process {} called it, but only {} take part", request.source,
                       name_set(tasks, num_tasks_));
  }
  const bool fixed = barrier.of_all || barrier.tasks;
  if (fixed && (barrier.of_all != of_all || (!of_all && *barrier.tasks != tasks))) {
    return fmt::format("process {} called it for {}, but the first caller called it for {}", request.source,
                       name_set(tasks, num_tasks_),
                       name_set(barrier.tasks.value_or(std::vector<int>()), num_tasks_));
  }
  return "";
}

void BarrierTable::finish(const std::string& id, Barrier& barrier, Status result, Answers& answers) {
  barrier.going_on = false;
  barrier.result = std::move(result);
  going_on_.erase(id);
  for (auto& [task, arrival] : barrier.arrived) {
    if (!arrival.done) continue;
    waiting_.erase(arrival.call);
    answers.push_back([done = std::move(arrival.done), status = barrier.result, counter = barrier.counter] {
      done(status, counter);
    });
  }
  barrier.arrived.clear();
  barrier.in_over = over_.insert(over_.end(), id);
}

void BarrierTable::keep_few() {
  // A restarted task counts by the calls of its earlier life.
  if (over_.size() <= kMostKept || !lives_.empty()) return;
  barriers_.erase(over_.front());
  over_.pop_front();
  has_forgotten_ = true;
}

void BarrierTable::fail(const std::string& id, Barrier& barrier, Code code, const std::string& why,
                        Answers& answers, std::optional<int> source) {
  finish(id, barrier, error(code, id, barrier.counter, why, source), answers);
}

void BarrierTable::arrive(CallId call, const BarrierCall& request, Barrier& barrier,
                          DoneWith<std::int64_t> done, Answers& answers) {
  Arrival& arrival = barrier.arrived[request.source];
  if (arrival.done) {
    waiting_.erase(arrival.call);
    Status superseded =
        Status::bare(Code::kCancelled, fmt::format("process {} called barrier '{}' again before it was over",
                                                   request.source, shown(request.id)));
    answers.push_back([done = std::move(arrival.done), superseded] { done(superseded, 0); });
  }
  arrival = {call, std::move(done)};
  waiting_[call] = {request.id, request.source};
}

std::int64_t BarrierTable::instance_meant(const BarrierCall& request, Barrier& barrier) {
  auto life = lives_.find(request.source);
  if (life == lives_.end()) return request.counter;
  int& called = barrier.called_in_life[request.source];
  const bool first_call = called != life->second;
  called = life->second;
  if (!first_call || request.counter != 0) return request.counter;
  return barrier.going_on ? barrier.counter : barrier.counter + 1;
}

void BarrierTable::call(CallId call, const BarrierCall& request, Clock::TimePoint now,
                        const std::function<std::optional<std::string>(int)>& why_failed,
                        DoneWith<std::int64_t> done, Answers& answers) {
  auto found = barriers_.find(request.id);
  if (found == barriers_.end() && request.counter != 0 && !has_forgotten_) {
    // -1 as the service's count makes the caller's next one 0, the first instance; nothing is kept of the
    // call.
    Status status =
        error(Code::kInternal, request.id, request.counter,
              fmt::format("process {} calls it as one used before, but the coordinator has never heard of it",
                          request.source));
    status.barrier->counter = -1;
    answers.push_back([done = std::move(done), status] { done(status, 0); });
    return;
  }
  bool is_new = found == barriers_.end();
  if (is_new) found = barriers_.emplace(request.id, Barrier{}).first;
  Barrier& barrier = found->second;

  const std::int64_t counter = is_new ? request.counter : instance_meant(request, barrier);
  if (!is_new && !barrier.going_on && counter == barrier.counter) {
    Status status = barrier.result;
    if (status.ok() && !takes_part(barrier, request.source)) {
      status = error(Code::kInvalidArgument, request.id, barrier.counter, why_invalid(request, barrier));
    }
    answers.push_back([done = std::move(done), status, reached = barrier.counter] { done(status, reached); });
    return;
  }
  bool starts = is_new || (!barrier.going_on && counter == barrier.counter + 1);
  if (!starts && counter != barrier.counter) {
    std::string why = fmt::format("process {} calls instance {}, the others are at instance {}",
                                  request.source, counter, barrier.counter);
    Status status = error(Code::kInternal, request.id, barrier.counter, why);
    if (barrier.going_on) finish(request.id, barrier, status, answers);
    answers.push_back([done = std::move(done), status] { done(status, 0); });
    return;
  }

  if (starts) {
    if (barrier.in_over) over_.erase(*std::exchange(barrier.in_over, std::nullopt));
    keep_few();
    barrier.counter = counter;
    barrier.going_on = true;
    barrier.timeout_ms = std::clamp<std::int64_t>(request.timeout_ms, 0, kLongestTimeoutMs);
    barrier.deadline = now + std::chrono::milliseconds(barrier.timeout_ms);
    going_on_.insert(request.id);
  }
  arrive(call, request, barrier, std::move(done), answers);
  if (std::string why = why_invalid(request, barrier); !why.empty()) {
    fail(request.id, barrier, Code::kInvalidArgument, why, answers);
    return;
  }
  if (!barrier.tasks && !barrier.of_all) {
    std::vector<int> tasks = set_of(request.tasks, num_tasks_);
    barrier.of_all = tasks.empty();
    if (!barrier.of_all) barrier.tasks = std::move(tasks);
  }
  if (starts) {
    for (int task = 0; task < num_tasks_; ++task) {
      if (!takes_part(barrier, task)) continue;
      if (auto why = why_failed(task)) {
        fail(request.id, barrier, Code::kInternal, *why, answers, task);
        return;
      }
    }
  }
  if (barrier.arrived.size() < members(barrier)) return;
  finish(request.id, barrier, Status{}, answers);
  listener_.passed(request.id);
}

Status BarrierTable::cancel_barrier(const std::string& id, std::int64_t counter, Answers& answers) {
  auto found = barriers_.find(id);
  if (found == barriers_.end()) {
    Status status =
        error(Code::kFailedPrecondition, id, counter, "nobody has called it yet, so it cannot be cancelled");
    status.barrier->counter = -1;
    return status;
  }
  Barrier& barrier = found->second;
  if (!barrier.going_on || barrier.counter != counter) {
    return error(Code::kFailedPrecondition, id, barrier.counter,
                 fmt::format("instance {} is not going on, so it cannot be cancelled", counter));
  }
  fail(id, barrier, Code::kCancelled, "it was cancelled", answers);
  return {};
}

void BarrierTable::task_gone(int task, const std::string& why, bool has_left, Answers& answers) {
  for (const std::string& id : std::set<std::string>(going_on_)) {
    Barrier& barrier = barriers_[id];
    if (!takes_part(barrier, task)) continue;
    if (has_left) tell_failed(id, barrier, FailureKind::kLeftEarly, {task}, why);
    fail(id, barrier, Code::kInternal, why, answers, task);
  }
}

void BarrierTable::withdraw(int task, const std::string& why, Answers& answers) {
  for (const std::string& id : std::set<std::string>(going_on_)) {
    Barrier& barrier = barriers_[id];
    auto arrival = barrier.arrived.find(task);
    if (arrival == barrier.arrived.end()) continue;
    if (arrival->second.done) {
      waiting_.erase(arrival->second.call);
      Status status = error(Code::kCancelled, id, barrier.counter, why);
      answers.push_back([done = std::move(arrival->second.done), status] { done(status, 0); });
    }
    barrier.arrived.erase(arrival);
  }
}

void BarrierTable::tick(Clock::TimePoint now, Answers& answers) {
  for (const std::string& id : std::set<std::string>(going_on_)) {
    Barrier& barrier = barriers_[id];
    if (now < barrier.deadline) continue;
    const std::vector<int> absent = missing(barrier);
    const std::string why =
        fmt::format("after {} ms {} of {} processes came; missing: {}", barrier.timeout_ms,
                    members(barrier) - absent.size(), members(barrier), name_processes(absent, num_tasks_));
    tell_failed(id, barrier, FailureKind::kMissing, absent, why);
    fail(id, barrier, Code::kDeadlineExceeded, why, answers);
  }
}

void BarrierTable::stood_still(Clock::TimePoint now, Clock::Duration how_long) {
  for (const std::string& id : going_on_) {
    Barrier& barrier = barriers_[id];
    barrier.deadline =
        std::min(barrier.deadline + how_long, now + std::chrono::milliseconds(barrier.timeout_ms));
  }
}

void BarrierTable::cancel(CallId call, const Status& status, Answers& answers) {
  auto open = waiting_.find(call);
  if (open == waiting_.end()) return;
  const auto& [id, task] = open->second;
  Arrival& arrival = barriers_[id].arrived[task];
  answers.push_back([done = std::move(arrival.done), status] { done(status, 0); });
  arrival.done = nullptr;
  waiting_.erase(open);
}

void BarrierTable::fail_all(Code code, const std::string& why, Answers& answers) {
  for (const std::string& id : std::set<std::string>(going_on_)) fail(id, barriers_[id], code, why, answers);
}

}  // namespace lockstep::coordination
