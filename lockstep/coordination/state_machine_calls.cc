#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/coordination/section.h"
#include "lockstep/coordination/state_machine.h"

// The calls of the service that do not change who belongs to the job: keys, barriers, watching.

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
  section.answer(done, Status::of_service(Code::kNotFound, fmt::format("there is no key '{}'", key)),
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

void StateMachine::get_alive_tasks(CallId call, std::uint64_t service, int source,
                                   const std::vector<int>& tasks, DoneWith<std::vector<AliveTask>> done) {
  Section section(*this);
  if (auto status = refusal(service)) return section.answer(done, *status, std::vector<AliveTask>{});
  std::set<int> asked(tasks.begin(), tasks.end());
  if (!asked.contains(source)) {
    Status status = Status::bare(
        Code::kInvalidArgument,
        fmt::format("process {} asked which of a set of processes are alive, but is not in the set", source));
    return section.answer(done, status, std::vector<AliveTask>{});
  }
  alive_queries_.push_back({call, source, std::move(asked), std::move(done)});
  answer_alive_queries(section.answers);
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
  auto query = std::find_if(alive_queries_.begin(), alive_queries_.end(),
                            [&](const AliveQuery& each) { return each.id == call; });
  if (query != alive_queries_.end()) {
    section.answer(std::move(query->done), status, std::vector<AliveTask>{});
    alive_queries_.erase(query);
  }
  if (auto found = task_of_call_.find(call); found != task_of_call_.end()) {
    Task& task = tasks_[found->second];
    if (task.registering.id == call && task.registering.done) {
      section.answer(take(task.registering), status, std::uint64_t{0});
      task.incarnation = 0;
      task.where = {};
    }
    for (Call<Done>* open : {&task.polling, &task.leaving}) {
      if (open->id == call && open->done) section.answer(take(*open), status);
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

std::optional<std::string> StateMachine::first_failure() const {
  std::lock_guard lock(mutex_);
  return first_failure_;
}

bool StateMachine::wait_until_all_left(std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  return all_left_now_.wait_for(lock, timeout, [this] { return all_left_locked(); });
}

void StateMachine::stop() {
  Section section(*this);
  if (stopped_) return;
  Status status = *(stopped_ = true, refusal(incarnation_));
  barriers_.fail_all(Code::kAborted, status.message, section.answers);
  values_.cancel_all(status, section.answers);
  for (auto& [call, done] : watchers_) section.answer(std::move(done), status, WatchedTasks{});
  watchers_.clear();
  for (AliveQuery& query : alive_queries_) {
    section.answer(std::move(query.done), status, std::vector<AliveTask>{});
  }
  alive_queries_.clear();
  for (Task& task : tasks_) {
    if (task.registering.done) {
      section.answer(take(task.registering), status, std::uint64_t{0});
    }
    for (Call<Done>* open : {&task.polling, &task.leaving}) {
      if (open->done) section.answer(take(*open), status);
    }
  }
}

}  // namespace lockstep::coordination
