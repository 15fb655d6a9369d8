// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/state/state_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "coordination.pb.h"
#include "job.pb.h"
#include "lockstep/base/fail.h"
#include "lockstep/coordination/protocol/membership.h"
#include "lockstep/coordination/state/section.h"

namespace lockstep::coordination {
namespace {

double seconds(Clock::Duration duration) { return std::chrono::duration<double>(duration).count(); }

/// The incarnation of the service that the request is for; nullopt if it may be any.
template <class Request>
std::optional<std::uint64_t> service_of(const Request& request) {
  if constexpr (requires { request.incarnations(); }) {
    return request.incarnations().service_incarnation();
  } else if constexpr (requires { request.service_incarnation(); }) {
    return request.service_incarnation();
  } else {
    return std::nullopt;
  }
}

}  // namespace

StateMachine::StateMachine(const ServerOptions& options, const Clock& clock, std::uint64_t incarnation)
    : clock_(clock),
      incarnation_(incarnation),
      register_timeout_(options.register_timeout),
      heartbeat_timeout_(options.heartbeat_timeout),
      shutdown_timeout_(options.shutdown_timeout),
      peer_report_grace_(options.peer_report_grace),
      recoverable_(options.recoverable),
      keep_(options.keep),
      attempt_(options.identity.attempt),
      held_by_(options.held_by),
      tasks_(static_cast<std::size_t>(std::max(options.num_processes, 0))),
      barriers_(options.num_processes, barrier_listener()) {
  if (options.num_processes < 1) {
    fail<InitializationError>("a coordinator needs a job of at least 1 process, got {}",
                              options.num_processes);
  }
  if (register_timeout_.count() <= 0 || heartbeat_timeout_.count() <= 0 || shutdown_timeout_.count() < 0) {
    fail<InitializationError>(
        "a coordinator needs register and heartbeat timeouts above zero and a shutdown timeout of at least "
        "zero, got {} s, {} s and {} s",
        seconds(register_timeout_), seconds(heartbeat_timeout_), seconds(shutdown_timeout_));
  }
  if (keep_ && recoverable_) {
    fail<InitializationError>(
        "a coordinator either stays for later starts of its job or lets single processes rejoin, not both: "
        "give keep or recoverable");
  }
  in_state_[static_cast<std::size_t>(TaskState::kUninitialized)] = num_tasks();
}

BarrierTable::Listener StateMachine::barrier_listener() {
  return {.failed = [this](const BarrierTable::Failed& failed) { barrier_failed(failed); },
          .passed = [this](const std::string& id) { notes_.barrier_passed(id); }};
}

Status StateMachine::unknown(int task) const {
  return Status::of_service(
      Code::kInvalidArgument,
      fmt::format("process id {} is out of range: the job has {} process{}, with ids 0 to {}; "
                  "give each process its own id below the number of processes",
                  task, num_tasks(), num_tasks() == 1 ? "" : "es", num_tasks() - 1));
}

void StateMachine::call(const Procedure& called, CallId id, const Caller& caller, std::string bytes,
                        Answered done) {
  bool known = false;
  for_each_procedure([&](const auto& procedure) {
    if (&procedure != &called) return;
    known = true;
    using Called = std::remove_cvref_t<decltype(procedure)>;
    typename Called::Request request;
    if (!request.ParseFromString(bytes)) return done(unreadable("request"), {});
    Section section(*this);
    if (auto status = refusal(service_of(request).value_or(incarnation_)))
      return section.answer(done, *status, Payload());
    handle(section, id, caller, request, Responder<typename Called::Response>(std::move(done)));
  });
  if (!known) done(unknown_call(), {});
}

Status StateMachine::stopped() const {
  return Status::bare(Code::kUnavailable, "the coordinator has stopped");
}

std::optional<Status> StateMachine::refusal(std::uint64_t service) const {
  if (stopped_) return stopped();
  if (service == incarnation_) return std::nullopt;
  Status status = Status::of_service(Code::kInternal,
                                     "this is another coordinator than the one that the process registered "
                                     "with: the coordinator was restarted; start the job again");
  status.right_service_incarnation = incarnation_;
  return status;
}

std::vector<int> StateMachine::of_state(TaskState state) const {
  std::vector<int> ids;
  for (int i = 0; i < num_tasks(); ++i) {
    if (tasks_[i].state == state) ids.push_back(i);
  }
  return ids;
}

// Changes of state.

void StateMachine::set_state(int task, TaskState state) {
  --in_state_[static_cast<std::size_t>(tasks_[task].state)];
  ++in_state_[static_cast<std::size_t>(state)];
  tasks_[task].state = state;
  ++version_;
  if (all_left_locked()) all_left_now_.notify_all();
}

void StateMachine::connect(int task, Answers& answers) {
  set_state(task, TaskState::kConnected);
  tasks_[task].last_heard = clock_.now();
  if (tasks_[task].registering.done) {
    answers.push_back(
        [done = take(tasks_[task].registering), response = registered()] { done({}, response); });
  }
}

void StateMachine::disconnect(int task, Answers& answers) {
  set_state(task, TaskState::kDisconnected);
  tasks_[task].disconnected_at = clock_.now();
  end_poll(task, Status::of_service(Code::kCancelled, fmt::format("{} has left", name(task))), answers);
  leave_barriers(task, fmt::format("{} has left the job", name(task)), answers);
}

void StateMachine::remember(const Failure& failure) {
  if (!first_failure_) first_failure_ = failure;
}

void StateMachine::end_poll(int task, const Status& status, Answers& answers) {
  if (!tasks_[task].polling.done) return;
  answers.push_back([done = take(tasks_[task].polling), status] { done(status); });
}

void StateMachine::leave_barriers(int task, const std::string& why, Answers& answers) {
  if (recoverable_) {
    barriers_.withdraw(task, why, answers);
  } else {
    barriers_.task_gone(task, why, tasks_[task].state == TaskState::kDisconnected, answers);
  }
}

void StateMachine::put_in_error(int task, const Status& error, Answers& answers) {
  set_state(task, TaskState::kError);
  tasks_[task].error = error;
  std::string why = fmt::format("{} has failed: {}", name(task), error.message);
  leave_barriers(task, why, answers);
  if (recoverable_) end_poll(task, error, answers);
  if (!shutdown_deadline_) return;
  fail_shutdown(
      Status::of_service(Code::kInternal, fmt::format("shutting down together failed: {}", why), task),
      answers);
}

void StateMachine::fail_job(const Status& error, Answers& answers) {
  if (job_error_ || recoverable_) return;
  job_error_ = error;
  if (!polled_) {
    for (int i = 0; i < num_tasks(); ++i) {
      if (tasks_[i].state == TaskState::kConnected) put_in_error(i, error, answers);
    }
  }
  for (Task& task : tasks_) {
    if (task.polling.done) answers.push_back([done = take(task.polling), error] { done(error); });
  }
}

void StateMachine::fail_registration(Status error, Answers& answers) {
  error.barrier = BarrierInstance{kRegisterBarrier, 0};
  register_deadline_.reset();
  for (int i = 0; i < num_tasks(); ++i) {
    if (tasks_[i].registering.done) {
      answers.push_back([done = take(tasks_[i].registering), error] { done(error); });
    }
    put_in_error(i, error, answers);
  }
}

void StateMachine::fail_shutdown(const Status& error, Answers& answers) {
  shutdown_deadline_.reset();
  shutdown_over_ = true;
  fail_job(error, answers);
  for (int i = 0; i < num_tasks(); ++i) {
    if (tasks_[i].leaving.done) answers.push_back([done = take(tasks_[i].leaving), error] { done(error); });
    if (tasks_[i].state != TaskState::kError) put_in_error(i, error, answers);
  }
}

// Later starts of the job.

bool StateMachine::begins_anew(int task, std::uint64_t incarnation, const Caller& caller) const {
  if (in_state_[static_cast<std::size_t>(TaskState::kUninitialized)] == num_tasks()) return false;
  if (keep_ && caller.attempt > attempt_) return true;
  // JAX's service lets one of its processes come again at once; ours join a job of them all.
  const bool is_over = !recoverable_ && !first_failure_ && caller.where.known() &&
                       in_state_[static_cast<std::size_t>(TaskState::kDisconnected)] == num_tasks();
  return (is_over || (keep_ && (all_left_locked() || job_error_))) && tasks_[task].incarnation != incarnation;
}

void StateMachine::begin_anew(int attempt, Answers& answers) {
  end_all_calls(Status::of_service(Code::kAborted, "the job was started again"), Code::kAborted, answers);
  std::vector<Task> fresh(tasks_.size());
  for (std::size_t i = 0; i < fresh.size(); ++i)
    fresh[i].where = fresh[i].launched_at = tasks_[i].launched_at;
  tasks_ = std::move(fresh);
  incarnation_ = std::mt19937_64(incarnation_)();
  attempt_ = attempt;
  in_state_ = {};
  in_state_[static_cast<std::size_t>(TaskState::kUninitialized)] = num_tasks();
  ++version_;
  wanting_to_leave_ = 0;
  polled_ = shutdown_over_ = false;
  job_error_.reset();
  first_failure_.reset();
  register_deadline_.reset();
  shutdown_deadline_.reset();
  notes_ = {};
  values_ = {};
  barriers_ = BarrierTable(num_tasks(), barrier_listener());
}

// Membership.

void StateMachine::replaced(int task, Answers& answers) {
  Status error = Status::of_service(
      Code::kAborted,
      fmt::format(
          "{} came a second time while it was connected: it was restarted, or two processes were given the "
          "same process id; start the whole job again, each process with an id of its own",
          name(task)),
      task);
  remember({FailureKind::kEndedWithError, {task}, error.message});
  fail_job(error, answers);
  if (tasks_[task].state != TaskState::kError) put_in_error(task, error, answers);
}

jax::RegisterTaskResponse StateMachine::registered() const {
  jax::RegisterTaskResponse response;
  response.set_service_incarnation(incarnation_);
  return response;
}

void StateMachine::handle(Section& section, CallId call, const Caller& caller,
                          const jax::RegisterTaskRequest& request,
                          Responder<jax::RegisterTaskResponse> done) {
  const int task = request.source_task_id();
  const std::uint64_t incarnation = request.incarnation();
  if (!known(task)) return section.answer(done, unknown(task));
  if (keep_ && caller.attempt < attempt_) {
    return section.answer(
        done, Status::of_service(
                  Code::kPermissionDenied,
                  fmt::format("{} belongs to attempt {} of the job, but attempt {} has begun; end it",
                              name(task), caller.attempt, attempt_)));
  }
  if (begins_anew(task, incarnation, caller)) {
    if (held_by_ && !keep_) {
      return section.answer(
          done, Status::bare(Code::kUnavailable,
                             fmt::format("{} holds a coordinator whose job is over", name(*held_by_))));
    }
    begin_anew(caller.attempt, section.answers);
  }
  Task& self = tasks_[task];
  auto come_again = [&] {
    if (recoverable_ && self.incarnation != incarnation) barriers_.task_restarted(task);
    if (self.incarnation != incarnation) notes_.forget(task);
    self.incarnation = incarnation;
    self.where = caller.where.known() ? as_shown(caller.where) : self.launched_at;
    if (std::exchange(self.wants_to_leave, false)) --wanting_to_leave_;
    open(self.registering, task, call, std::move(done));
    connect(task, section.answers);
  };
  switch (self.state) {
    case TaskState::kConnected:
      if (self.incarnation == incarnation) return section.answer(done, Status{}, registered());
      if (recoverable_) {
        const std::string why = fmt::format("{} was restarted", name(task));
        end_poll(task, Status::of_service(Code::kCancelled, why), section.answers);
        leave_barriers(task, why, section.answers);
        return come_again();
      }
      replaced(task, section.answers);
      [[fallthrough]];
    case TaskState::kError: {
      if (recoverable_ && self.error.code == Code::kUnavailable) return come_again();
      Status error = Status::of_service(
          Code::kAborted,
          fmt::format("{} cannot register, because it has failed: {}", name(task), self.error.message), task);
      return section.answer(done, error);
    }
    case TaskState::kDisconnected:
      return come_again();
    case TaskState::kUninitialized:
      break;
  }
  if (self.registering.done) {
    Status status =
        self.incarnation == incarnation
            ? Status::bare(Code::kCancelled, fmt::format("{} registered again", name(task)))
            : Status::of_service(
                  Code::kAlreadyExists,
                  fmt::format(
                      "the id of {} was taken by another process: it was restarted, or two processes were "
                      "given the same process id; give each process an id of its own",
                      name(task)));
    section.answer(take(self.registering), status);
  }
  self.incarnation = incarnation;
  self.where = caller.where.known() ? as_shown(caller.where) : self.launched_at;
  open(self.registering, task, call, std::move(done));
  if (!register_deadline_) register_deadline_ = clock_.now() + register_timeout_;
  if (registering_ < num_tasks()) return;
  register_deadline_.reset();
  notes_.barrier_passed(kRegisterBarrier);
  for (int i = 0; i < num_tasks(); ++i) connect(i, section.answers);
}

void StateMachine::handle(Section& section, CallId, const Caller&, const jax::HeartbeatRequest& request,
                          Responder<jax::HeartbeatResponse> done) {
  const int task = request.source_task_id();
  const std::uint64_t incarnation = request.incarnation();
  jax::HeartbeatResponse response;
  response.set_service_incarnation(incarnation_);
  if (!known(task)) return section.answer(done, unknown(task));
  Task& self = tasks_[task];
  bool left_long_ago =
      self.state == TaskState::kDisconnected && clock_.now() - self.disconnected_at > heartbeat_timeout_;
  if (self.state == TaskState::kUninitialized || left_long_ago) {
    return section.answer(
        done, Status::of_service(Code::kInvalidArgument, fmt::format("{} sent a heartbeat, but is {}",
                                                                     name(task), to_string(self.state))));
  }
  if (self.state == TaskState::kError) {
    return section.answer(done, Status::of_service(Code::kAborted,
                                                   fmt::format("{} sent a heartbeat, but has failed: {}",
                                                               name(task), self.error.message),
                                                   task));
  }
  if (self.incarnation != incarnation) {
    if (recoverable_) return section.answer(done, Status{}, response);
    replaced(task, section.answers);
    return section.answer(done, self.error);
  }
  self.last_heard = clock_.now();
  section.answer(done, Status{}, response);
}

void StateMachine::handle(Section& section, CallId call, const Caller&,
                          const jax::PollForErrorRequest& request,
                          Responder<jax::PollForErrorResponse> done) {
  const int task = request.source_task_id();
  if (!known(task)) return section.answer(done, unknown(task));
  Task& self = tasks_[task];
  if (self.state == TaskState::kDisconnected) {
    bool long_ago = clock_.now() - self.disconnected_at > heartbeat_timeout_;
    return section.answer(done, Status::of_service(long_ago ? Code::kFailedPrecondition : Code::kCancelled,
                                                   fmt::format("{} has left", name(task))));
  }
  if (self.state == TaskState::kUninitialized) {
    return section.answer(
        done, Status::of_service(Code::kFailedPrecondition, fmt::format("{} is not registered", name(task))));
  }
  if (job_error_) return section.answer(done, *job_error_);
  if (self.state == TaskState::kError) {
    return section.answer(
        done, Status::of_service(Code::kFailedPrecondition,
                                 fmt::format("{} has failed: {}", name(task), self.error.message), task));
  }
  notes_.forget(task);  // It is alive.
  if (self.polling.done) {
    section.answer(
        take(self.polling),
        Status::of_service(Code::kCancelled, fmt::format("{} polled for errors again", name(task))));
  }
  polled_ = true;
  open(self.polling, task, call, std::move(done));
}

void StateMachine::handle(Section& section, CallId call, const Caller&,
                          const jax::ShutdownTaskRequest& request,
                          Responder<jax::ShutdownTaskResponse> done) {
  const int task = request.source_task_id();
  if (!known(task)) return section.answer(done, unknown(task));
  Task& self = tasks_[task];
  if (self.state == TaskState::kUninitialized) {
    return section.answer(done, Status::of_service(Code::kFailedPrecondition,
                                                   fmt::format("{} leaves, but has never come", name(task))));
  }
  if (shutdown_over_ || shutdown_timeout_.count() == 0 || recoverable_) {
    if (self.state == TaskState::kDisconnected) {
      return section.answer(
          done, Status::of_service(Code::kInternal, fmt::format("{} has left already", name(task)), task));
    }
    section.answer(done, Status{});
    return disconnect(task, section.answers);
  }
  if (self.leaving.done) {
    section.answer(take(self.leaving),
                   Status::bare(Code::kCancelled, fmt::format("{} called shutdown again", name(task))));
  }
  if (!std::exchange(self.wants_to_leave, true)) ++wanting_to_leave_;
  open(self.leaving, task, call, std::move(done));
  if (!shutdown_deadline_) {
    shutdown_deadline_ = clock_.now() + shutdown_timeout_;
    if (auto failed = of_state(TaskState::kError); !failed.empty()) {
      const std::string& why = tasks_[failed.front()].error.message;
      return fail_shutdown(Status::of_service(Code::kInternal,
                                              fmt::format("shutting down together failed: {} has failed: {}",
                                                          name(failed.front()), why),
                                              failed.front()),
                           section.answers);
    }
  }
  if (wanting_to_leave_ < num_tasks()) return;
  shutdown_deadline_.reset();
  shutdown_over_ = true;
  for (Task& each : tasks_) {
    if (each.leaving.done) section.answer(take(each.leaving), Status{});
  }
  for (int i = 0; i < num_tasks(); ++i) disconnect(i, section.answers);
}

void StateMachine::tick() {
  Section section(*this);
  if (stopped_) return;
  Clock::TimePoint now = clock_.now();
  barriers_.tick(now, section.answers);
  count_due_reports(section.answers);
  look_for_silent_tasks(section.answers);
  if (register_deadline_ && now >= *register_deadline_) registration_is_late(section.answers);
  if (shutdown_deadline_ && now >= *shutdown_deadline_) shutdown_is_late(section.answers);
}

void StateMachine::stood_still(Clock::Duration how_long) {
  Section section(*this);
  const Clock::TimePoint now = clock_.now();
  for (Task& task : tasks_) {
    task.last_heard = std::min(task.last_heard + how_long, now);
    task.disconnected_at = std::min(task.disconnected_at + how_long, now);
  }
  if (register_deadline_) *register_deadline_ += how_long;
  if (shutdown_deadline_) *shutdown_deadline_ += how_long;
  barriers_.stood_still(now, how_long);
}

void StateMachine::look_for_silent_tasks(Answers& answers) {
  const Clock::TimePoint now = clock_.now();
  std::vector<int> silent;
  for (int i = 0; i < num_tasks(); ++i) {
    if (tasks_[i].state == TaskState::kConnected && now - tasks_[i].last_heard > heartbeat_timeout_) {
      silent.push_back(i);
    }
  }
  if (silent.empty()) return;
  Failure first = failure(FailureKind::kDied, {silent.front()},
                          fmt::format("no heartbeat for {} s", seconds(heartbeat_timeout_)));
  if (silent.size() > 1) {
    const std::vector<int> others(silent.begin() + 1, silent.end());
    first.message += fmt::format("\nthe same is true of {}", name_processes(others, num_tasks()));
    first.processes = silent;
  }
  first = notes_.cause_of(first);
  remember(first);
  Status error = Status::of_service(Code::kUnavailable, first.message, silent.front());
  fail_job(error, answers);
  for (int task : silent) {
    if (tasks_[task].state != TaskState::kError) put_in_error(task, error, answers);
  }
}

void StateMachine::registration_is_late(Answers& answers) {
  const Failure late = failure(
      FailureKind::kMissing, not_come(),
      fmt::format("after {} s {}. See whether the missing ones were started with this coordinator's address, "
                  "or give them more time",
                  seconds(register_timeout_), membership_of(infos())));
  remember(late);
  fail_registration(Status::of_service(Code::kDeadlineExceeded, late.message), answers);
}

void StateMachine::shutdown_is_late(Answers& answers) {
  std::vector<int> missing;
  for (int i = 0; i < num_tasks(); ++i) {
    if (!tasks_[i].wants_to_leave) missing.push_back(i);
  }
  const Failure late = failure(FailureKind::kMissing, missing,
                               fmt::format("after {} s these have not called shutdown: {}",
                                           seconds(shutdown_timeout_), name_processes(missing, num_tasks())));
  remember(late);
  fail_shutdown(Status::of_service(Code::kInternal, late.message), answers);
}

}  // namespace lockstep::coordination
