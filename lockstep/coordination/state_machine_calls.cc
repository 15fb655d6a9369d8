// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/coordination/section.h"
#include "lockstep/coordination/state_machine.h"

// The calls of the service that do not change the membership of the job: keys, barriers, watching.

namespace lockstep::coordination {

void StateMachine::watch_tasks(CallId call, std::uint64_t service, std::int64_t version,
                               DoneWith<WatchedTasks> done) {
  Section section(*this);
  if (auto status = refusal(service)) return section.answer(done, *status, WatchedTasks{});
  if (version != version_) return section.answer(done, Status{}, WatchedTasks{infos(), version_});
  watchers_[call] = std::move(done);
}

void StateMachine::insert(CallId, std::uint64_t service, const std::string& key, const std::string& value,
                          bool allow_overwrite, Done done) {
  Section section(*this);
  if (auto status = refusal(service)) return section.answer(done, *status);
  section.answer(done, values_.insert(key, value, allow_overwrite, section.answers));
}

void StateMachine::get(CallId call, std::uint64_t service, const std::string& key, DoneWith<Value> done) {
  Section section(*this);
  if (auto status = refusal(service)) return section.answer(done, *status, Value());
  values_.get(call, key, std::move(done), section.answers);
}

void StateMachine::try_get(CallId, std::uint64_t service, const std::string& key, DoneWith<Value> done) {
  Section section(*this);
  if (auto status = refusal(service)) return section.answer(done, *status, Value());
  if (auto value = values_.try_get(key)) return section.answer(done, Status{}, value);
  section.answer(done, Status::of_service(Code::kNotFound, fmt::format("there is no key '{}'", shown(key))),
                 Value());
}

void StateMachine::increment(CallId, std::uint64_t service, const std::string& key, std::int64_t by,
                             DoneWith<std::string> done) {
  Section section(*this);
  if (auto status = refusal(service)) return section.answer(done, *status, std::string());
  std::string text;
  Status status = values_.increment(key, by, text, section.answers);
  section.answer(done, status, text);
}

void StateMachine::get_directory(CallId, std::uint64_t service, const std::string& key,
                                 DoneWith<KeyValues> done) {
  Section section(*this);
  if (auto status = refusal(service)) return section.answer(done, *status, KeyValues{});
  section.answer(done, Status{}, values_.get_directory(key));
}

void StateMachine::erase(CallId, std::uint64_t service, const std::string& key, Done done) {
  Section section(*this);
  if (auto status = refusal(service)) return section.answer(done, *status);
  values_.erase(key);
  section.answer(done, Status{});
}

void StateMachine::barrier(CallId call, std::uint64_t service, const BarrierCall& request,
                           DoneWith<std::int64_t> done) {
  Section section(*this);
  if (auto status = refusal(service)) return section.answer(done, *status, std::int64_t{0});
  auto why_failed = [this](int task) -> std::optional<std::string> {
    if (recoverable_ || tasks_[task].state != TaskState::kError) return std::nullopt;
    return fmt::format("{} has failed: {}", name(task), tasks_[task].error.message);
  };
  barriers_.call(call, request, clock_.now(), why_failed, std::move(done), section.answers);
}

void StateMachine::cancel_barrier(CallId, std::uint64_t service, const std::string& id, std::int64_t counter,
                                  Done done) {
  Section section(*this);
  if (auto status = refusal(service)) return section.answer(done, *status);
  section.answer(done, barriers_.cancel_barrier(id, counter, section.answers));
}

bool StateMachine::all_alive_have_asked(const std::vector<int>& tasks, const AliveRound& round) const {
  const int not_alive = num_tasks() - in_state_[static_cast<std::size_t>(TaskState::kConnected)];
  // The common case, without a look at each.
  if (round.asked.size() + static_cast<std::size_t>(not_alive) < tasks.size() && !tasks.empty() &&
      known(tasks.front()) && known(tasks.back())) {
    return false;
  }
  return std::all_of(tasks.begin(), tasks.end(), [&](int task) {
    return !known(task) || tasks_[task].state != TaskState::kConnected || round.asked.contains(task);
  });
}

void StateMachine::answer_alive_rounds(Answers& answers) {
  for (auto round = alive_rounds_.begin(); round != alive_rounds_.end();) {
    auto& [tasks, asked] = *round;
    if (!all_alive_have_asked(tasks, asked)) {
      ++round;
      continue;
    }
    auto alive = std::make_shared<std::vector<AliveTask>>();
    for (int task : tasks) {
      if (known(task) && tasks_[task].state == TaskState::kConnected)
        alive->push_back({task, tasks_[task].incarnation});
    }
    for (auto& [call, query] : asked.calls)
      answers.push_back([done = std::move(query.done), alive] { done({}, *alive); });
    round = alive_rounds_.erase(round);
  }
}

void StateMachine::get_alive_tasks(CallId call, std::uint64_t service, int source,
                                   const std::vector<int>& tasks, DoneWith<std::vector<AliveTask>> done) {
  Section section(*this);
  if (auto status = refusal(service)) return section.answer(done, *status, std::vector<AliveTask>{});
  std::vector<int> set = tasks;
  std::ranges::sort(set);
  set.erase(std::ranges::unique(set).begin(), set.end());
  if (!std::ranges::binary_search(set, source)) {
    Status status = Status::bare(
        Code::kInvalidArgument,
        fmt::format("process {} asked which of a set of processes are alive, but is not in the set", source));
    return section.answer(done, status, std::vector<AliveTask>{});
  }
  AliveRound& round = alive_rounds_[set];
  ++round.asked[source];
  round.calls.emplace(call, AliveRound::Query{source, std::move(done)});
  if (all_alive_have_asked(set, round)) answer_alive_rounds(section.answers);
}

void StateMachine::cancel(CallId call) {
  Section section(*this);
  Status status = Status::bare(Code::kCancelled, "the caller has cancelled the call");
  values_.cancel(call, status, section.answers);
  barriers_.cancel(call, status, section.answers);
  if (auto watcher = watchers_.find(call); watcher != watchers_.end()) {
    section.answer(std::move(watcher->second), status, WatchedTasks{});
    watchers_.erase(watcher);
  }
  for (auto& [tasks, round] : alive_rounds_) {
    auto found = round.calls.find(call);
    if (found == round.calls.end()) continue;
    auto& [source, done_of_query] = found->second;
    section.answer(std::move(done_of_query), status, std::vector<AliveTask>{});
    if (--round.asked[source] == 0) round.asked.erase(source);
    round.calls.erase(found);
    break;
  }
  std::erase_if(alive_rounds_, [](const auto& round) { return round.second.calls.empty(); });
  if (auto found = task_of_call_.find(call); found != task_of_call_.end()) {
    const int id = found->second;
    Task& task = tasks_[id];
    if (task.registering.id == call && task.registering.done) {
      section.answer(take(task.registering), status, std::uint64_t{0});
      task.incarnation = 0;
      task.where = task.launched_at;
    }
    for (Call<Done>* open : {&task.polling, &task.leaving}) {
      if (open->id != call || !open->done) continue;
      section.answer(take(*open), status);
      if (open == &task.polling) poll_lost(id);
    }
  }
  if (registering_ == 0) register_deadline_.reset();
}

std::vector<TaskInfo> StateMachine::infos() const {
  std::vector<TaskInfo> infos;
  for (int i = 0; i < num_tasks(); ++i) {
    const Task& task = tasks_[i];
    TaskInfo info{i, task.state, task.incarnation,
                  task.wants_to_leave && task.state == TaskState::kConnected};
    if (task.state == TaskState::kError) {
      info.error = task.error.message;
      info.error_code = static_cast<int>(task.error.code);
    }
    info.where = task.where;
    if (task.state == TaskState::kConnected) info.silent_for = clock_.now() - task.last_heard;
    infos.push_back(std::move(info));
  }
  return infos;
}

std::vector<TaskInfo> StateMachine::tasks() const {
  std::lock_guard lock(mutex_);
  return infos();
}

bool StateMachine::all_left_locked() const {
  return in_state_[static_cast<std::size_t>(TaskState::kDisconnected)] +
             in_state_[static_cast<std::size_t>(TaskState::kError)] ==
         num_tasks();
}

bool StateMachine::all_left() const {
  std::lock_guard lock(mutex_);
  return all_left_locked();
}

std::optional<Failure> StateMachine::first_failure() const {
  std::lock_guard lock(mutex_);
  return first_failure_;
}

bool StateMachine::wait_until_all_left(std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  return all_left_now_.wait_for(lock, timeout, [this] { return all_left_locked(); });
}

std::uint64_t StateMachine::incarnation() const {
  std::lock_guard lock(mutex_);
  return incarnation_;
}

void StateMachine::end_all_calls(const Status& status, Code of_barriers, Answers& answers) {
  auto answer = [&answers, &status](auto& done, auto... value) {
    answers.push_back(
        [done = std::move(done), status = status, ... value = std::move(value)] { done(status, value...); });
  };
  barriers_.fail_all(of_barriers, status.message, answers);
  values_.cancel_all(status, answers);
  for (auto& [call, done] : watchers_) answer(done, WatchedTasks{});
  watchers_.clear();
  for (auto& [tasks, round] : alive_rounds_) {
    for (auto& [call, query] : round.calls) answer(query.done, std::vector<AliveTask>{});
  }
  alive_rounds_.clear();
  for (Task& task : tasks_) {
    if (task.registering.done) {
      auto done = take(task.registering);
      answer(done, std::uint64_t{0});
    }
    for (Call<Done>* open : {&task.polling, &task.leaving}) {
      if (!open->done) continue;
      auto done = take(*open);
      answer(done);
    }
  }
}

void StateMachine::stop() {
  Section section(*this);
  if (stopped_) return;
  stopped_ = true;
  end_all_calls(*refusal(incarnation_), Code::kAborted, section.answers);
}

}  // namespace lockstep::coordination
