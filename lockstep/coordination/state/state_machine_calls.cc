// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "coordination.pb.h"
#include "lockstep/base/text.h"
#include "lockstep/coordination/state/section.h"
#include "lockstep/coordination/state/state_machine.h"

// The calls of the service that do not change the membership of the job: keys, barriers, watching.

namespace lockstep::coordination {
namespace {

/// A GetKeyValueResponse, or a TryGetKeyValueResponse, which is the same. The value comes last and is shared:
/// thousands of processes may read one of megabytes at the same time.
Payload value_response(const std::string& key, const Value& value) {
  const std::string entry = field_head(jax::KeyValueEntry::kKeyFieldNumber, key.size()) + key +
                            field_head(jax::KeyValueEntry::kValueFieldNumber, value->size());
  return {field_head(jax::GetKeyValueResponse::kKvFieldNumber, entry.size() + value->size()) + entry, value};
}

}  // namespace

jax::WatchTasksResponse StateMachine::watched() const {
  jax::WatchTasksResponse response;
  response.set_version_number(version_);
  for (const TaskInfo& task : infos()) {
    jax::TaskInfo& out = *response.add_task_state();
    out.set_task_id(task.task);
    out.set_state(static_cast<jax::TaskState>(task.state));
    out.set_incarnation(task.incarnation);
    if (task.state != TaskState::kError) continue;
    out.set_error_code(task.error_code);
    out.set_error_message(task.error);
    out.mutable_error_payload()->set_source_task_id(task.task);
  }
  return response;
}

void StateMachine::handle(Section& section, CallId call, const Caller&, const jax::WatchTasksRequest& request,
                          Responder<jax::WatchTasksResponse> done) {
  if (request.version_number() != version_) return section.answer(done, Status{}, watched());
  watchers_[call] = std::move(done);
}

void StateMachine::answer_watchers(Answers& answers) {
  if (watchers_.empty()) return;
  const Payload tasks = shared_payload(watched());
  for (auto& [call, done] : watchers_) {
    answers.push_back([done = std::move(done), tasks] { done({}, tasks); });
  }
  watchers_.clear();
}

void StateMachine::handle(Section& section, CallId, const Caller&, const jax::InsertKeyValueRequest& request,
                          Responder<jax::InsertKeyValueResponse> done) {
  const jax::KeyValueEntry& entry = request.kv();
  section.answer(done,
                 values_.insert(entry.key(), entry.value(), request.allow_overwrite(), section.answers));
}

void StateMachine::handle(Section& section, CallId call, const Caller&,
                          const jax::GetKeyValueRequest& request, Responder<jax::GetKeyValueResponse> done) {
  auto found = [done = std::move(done), key = request.key()](const Status& status, const Value& value) {
    done(status, status.ok() ? value_response(key, value) : Payload());
  };
  values_.get(call, request.key(), std::move(found), section.answers);
}

void StateMachine::handle(Section& section, CallId, const Caller&, const jax::TryGetKeyValueRequest& request,
                          Responder<jax::TryGetKeyValueResponse> done) {
  const std::string& key = request.key();
  if (auto value = values_.try_get(key)) return section.answer(done, Status{}, value_response(key, value));
  section.answer(done, Status::of_service(Code::kNotFound, fmt::format("there is no key '{}'", shown(key))));
}

void StateMachine::handle(Section& section, CallId, const Caller&,
                          const jax::IncrementKeyValueRequest& request,
                          Responder<jax::IncrementKeyValueResponse> done) {
  jax::IncrementKeyValueResponse response;
  jax::KeyValueEntry& entry = *response.mutable_kv();
  entry.set_key(request.key());
  std::string text;
  const Status status = values_.increment(request.key(), request.increment(), text, section.answers);
  entry.set_value(std::move(text));
  section.answer(done, status, std::move(response));
}

void StateMachine::handle(Section& section, CallId, const Caller&, const jax::GetKeyValueDirRequest& request,
                          Responder<jax::GetKeyValueDirResponse> done) {
  jax::GetKeyValueDirResponse response;
  for (auto& [key, value] : values_.get_directory(request.directory_key())) {
    jax::KeyValueEntry& entry = *response.add_kv();
    entry.set_key(key);
    entry.set_value(value);
  }
  section.answer(done, Status{}, std::move(response));
}

void StateMachine::handle(Section& section, CallId, const Caller&, const jax::DeleteKeyValueRequest& request,
                          Responder<jax::DeleteKeyValueResponse> done) {
  values_.erase(request.key());
  section.answer(done, Status{});
}

void StateMachine::handle(Section& section, CallId call, const Caller&, const jax::BarrierRequest& request,
                          Responder<jax::BarrierResponse> done) {
  const BarrierCall barrier{request.barrier_id(),
                            request.counter(),
                            request.barrier_timeout_in_ms(),
                            {request.task_ids().begin(), request.task_ids().end()},
                            request.source_task_id()};
  auto why_failed = [this](int task) -> std::optional<std::string> {
    if (recoverable_ || tasks_[task].state != TaskState::kError) return std::nullopt;
    return fmt::format("{} has failed: {}", name(task), tasks_[task].error.message);
  };
  auto reached = [done = std::move(done)](const Status& status, std::int64_t counter) {
    jax::BarrierResponse response;
    response.set_counter(counter);
    done(status, response);
  };
  barriers_.call(call, barrier, clock_.now(), why_failed, std::move(reached), section.answers);
}

void StateMachine::handle(Section& section, CallId, const Caller&, const jax::CancelBarrierRequest& request,
                          Responder<jax::CancelBarrierResponse> done) {
  section.answer(done, barriers_.cancel_barrier(request.barrier_id(), request.counter(), section.answers));
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
    jax::GetAliveTasksResponse response;
    for (int task : tasks) {
      if (!known(task) || tasks_[task].state != TaskState::kConnected) continue;
      response.add_alive_task_ids(task);
      response.add_incarnations(tasks_[task].incarnation);
    }
    const Payload alive = shared_payload(response);
    for (auto& [call, query] : asked.calls)
      answers.push_back([done = std::move(query.done), alive] { done({}, alive); });
    round = alive_rounds_.erase(round);
  }
}

void StateMachine::handle(Section& section, CallId call, const Caller&,
                          const jax::GetAliveTasksRequest& request,
                          Responder<jax::GetAliveTasksResponse> done) {
  const int source = request.requesting_task_id();
  std::vector<int> set(request.task_ids().begin(), request.task_ids().end());
  std::ranges::sort(set);
  set.erase(std::ranges::unique(set).begin(), set.end());
  if (!std::ranges::binary_search(set, source)) {
    Status status = Status::bare(
        Code::kInvalidArgument,
        fmt::format("process {} asked which of a set of processes are alive, but is not in the set", source));
    return section.answer(done, status);
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
    section.answer(std::move(watcher->second), status);
    watchers_.erase(watcher);
  }
  for (auto& [tasks, round] : alive_rounds_) {
    auto found = round.calls.find(call);
    if (found == round.calls.end()) continue;
    auto& [source, done_of_query] = found->second;
    section.answer(std::move(done_of_query), status);
    if (--round.asked[source] == 0) round.asked.erase(source);
    round.calls.erase(found);
    break;
  }
  std::erase_if(alive_rounds_, [](const auto& round) { return round.second.calls.empty(); });
  if (auto found = task_of_call_.find(call); found != task_of_call_.end()) {
    const int id = found->second;
    Task& task = tasks_[id];
    if (task.registering.id == call && task.registering.done) {
      section.answer(take(task.registering), status);
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
  auto answer = [&answers, &status](auto done) {
    answers.push_back([done = std::move(done), status] { done(status); });
  };
  barriers_.fail_all(of_barriers, status.message, answers);
  values_.cancel_all(status, answers);
  for (auto& [call, done] : watchers_) answer(std::move(done));
  watchers_.clear();
  for (auto& [tasks, round] : alive_rounds_) {
    for (auto& [call, query] : round.calls) answer(std::move(query.done));
  }
  alive_rounds_.clear();
  for (Task& task : tasks_) {
    if (task.registering.done) answer(take(task.registering));
    for (Call<Done>* open : {&task.polling, &task.leaving}) {
      if (open->done) answer(take(*open));
    }
  }
}

void StateMachine::stop() {
  Section section(*this);
  if (stopped_) return;
  stopped_ = true;
  end_all_calls(stopped(), Code::kAborted, section.answers);
}

}  // namespace lockstep::coordination
