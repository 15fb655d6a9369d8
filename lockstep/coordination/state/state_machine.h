// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/coordination/protocol/calls.h"
#include "lockstep/coordination/protocol/service.h"
#include "lockstep/coordination/state/answers.h"
#include "lockstep/coordination/state/barrier_table.h"
#include "lockstep/coordination/state/failure_notes.h"
#include "lockstep/coordination/state/key_value_table.h"
#include "lockstep/coordination/state/server_options.h"

namespace lockstep::coordination {

/// The coordination service itself: all its state and rules, without network code. Time only passes in
/// `tick`. Thread-safe.
///
/// A task is uninitialized until all have registered, then connected, disconnected once it has left, and in
/// error once it was silent for longer than the heartbeat timeout, was replaced, or was reported dead. The
/// first error is kept and sent to all tasks that poll. In recoverable mode it is not sent to other tasks,
/// and the task may register again.
class StateMachine : public Service {
 public:
  /// Uses only the times and `num_processes` of the options. Throws InitializationError if they are invalid.
  StateMachine(const ServerOptions& options, const Clock& clock, std::uint64_t incarnation);

  void call(const Procedure& procedure, CallId id, const Caller& caller, std::string request,
            Answered done) override;

  /// A registrant that is cancelled has not arrived; a caller of a barrier or of shutdown still has.
  void cancel(CallId call) override;

  /// Handles all events that are due: silent tasks, and the deadlines of barriers, registration and shutdown.
  void tick();

  /// The coordinator itself was stopped until now (or its machine was): it could not receive anything in that
  /// time, so all deadlines are extended by it.
  void stood_still(Clock::Duration how_long);

  void report_task_failure(const Failure& failure);  ///< as in CoordinationServer, like the following
                                                     ///< functions
  void settle_reports();
  void set_whereabouts(int task, const Whereabouts& where);
  std::vector<TaskInfo> tasks() const;
  bool all_left() const;
  std::optional<Failure> first_failure() const;
  bool wait_until_all_left(std::chrono::milliseconds timeout) const;  ///< in the machine's time
  std::uint64_t incarnation() const;

  /// Answers all waiting calls, and from now on every call, with UNAVAILABLE (ABORTED for a barrier).
  void stop();

 private:
  static constexpr char kRegisterBarrier[] = "[Init]Wait_for_all_tasks_to_register";

  using Registering = Responder<jax::RegisterTaskResponse>;
  template <class Callback>
  struct Call {
    CallId id = 0;
    Callback done;  ///< empty: no call is open
  };
  struct Task {
    TaskState state = TaskState::kUninitialized;
    std::uint64_t incarnation = 0;
    Whereabouts where, launched_at;  ///< as reported by the process; as reported by the launcher
    Clock::TimePoint last_heard, disconnected_at;
    Status error;
    Call<Registering> registering;
    Call<Done> polling, leaving;
    bool wants_to_leave = false;
  };
  /// The tasks that have asked which tasks of one set are alive.
  struct AliveRound {
    struct Query {
      int source = 0;
      Responder<jax::GetAliveTasksResponse> done;
    };
    std::map<int, int> asked;  ///< the number of open calls of each task
    std::map<CallId, Query> calls;
  };
  class Section;

  // The handlers of the calls (calls.h), which `call` runs in a section. It refuses requests for another
  // incarnation of the service by INTERNAL, and the status contains the right one. A task is a process id.

  /// Waits until all tasks have registered. ALREADY_EXISTS if another process takes over the task meanwhile,
  /// DEADLINE_EXCEEDED at the register timeout, ABORTED if the task is connected with another incarnation or
  /// has failed, INVALID_ARGUMENT for an id out of range. The caller tells where it runs, and its attempt.
  void handle(Section& section, CallId call, const Caller& caller, const jax::RegisterTaskRequest& request,
              Responder<jax::RegisterTaskResponse> done);

  /// The task is alive. ABORTED if it has failed or has another incarnation.
  void handle(Section& section, CallId call, const Caller& caller, const jax::HeartbeatRequest& request,
              Responder<jax::HeartbeatResponse> done);

  /// Waits for the job's error, which is the answer; CANCELLED when the task has left or polls again.
  void handle(Section& section, CallId call, const Caller& caller, const jax::PollForErrorRequest& request,
              Responder<jax::PollForErrorResponse> done);

  /// Waits until all tasks have called it; then all are disconnected. INTERNAL if that fails.
  void handle(Section& section, CallId call, const Caller& caller, const jax::ShutdownTaskRequest& request,
              Responder<jax::ShutdownTaskResponse> done);

  /// All tasks: at once if the version is not the current one, otherwise at the next change.
  void handle(Section& section, CallId call, const Caller& caller, const jax::WatchTasksRequest& request,
              Responder<jax::WatchTasksResponse> done);

  /// ALREADY_EXISTS if the key exists and may not be overwritten.
  void handle(Section& section, CallId call, const Caller& caller, const jax::InsertKeyValueRequest& request,
              Responder<jax::InsertKeyValueResponse> done);

  /// Waits for the key.
  void handle(Section& section, CallId call, const Caller& caller, const jax::GetKeyValueRequest& request,
              Responder<jax::GetKeyValueResponse> done);

  /// NOT_FOUND if the key does not exist.
  void handle(Section& section, CallId call, const Caller& caller, const jax::TryGetKeyValueRequest& request,
              Responder<jax::TryGetKeyValueResponse> done);

  /// The new value as decimal text; FAILED_PRECONDITION if the old one is not a number or the sum is too
  /// large.
  void handle(Section& section, CallId call, const Caller& caller,
              const jax::IncrementKeyValueRequest& request, Responder<jax::IncrementKeyValueResponse> done);

  /// All keys below the directory, at any depth, with their values.
  void handle(Section& section, CallId call, const Caller& caller, const jax::GetKeyValueDirRequest& request,
              Responder<jax::GetKeyValueDirResponse> done);

  /// Removes the key and all keys below it.
  void handle(Section& section, CallId call, const Caller& caller, const jax::DeleteKeyValueRequest& request,
              Responder<jax::DeleteKeyValueResponse> done);

  /// Waits for all tasks of the barrier; returns the instance's counter, which is also the payload of every
  /// error. DEADLINE_EXCEEDED; INVALID_ARGUMENT if the callers disagree on the tasks; INTERNAL if a task
  /// fails or leaves or the counter is not the service's; CANCELLED after CancelBarrier.
  void handle(Section& section, CallId call, const Caller& caller, const jax::BarrierRequest& request,
              Responder<jax::BarrierResponse> done);

  /// Fails the instance for all that wait for it. FAILED_PRECONDITION if it is not in progress.
  void handle(Section& section, CallId call, const Caller& caller, const jax::CancelBarrierRequest& request,
              Responder<jax::CancelBarrierResponse> done);

  /// Waits until all connected tasks of the set have called it with the same set; returns them.
  void handle(Section& section, CallId call, const Caller& caller, const jax::GetAliveTasksRequest& request,
              Responder<jax::GetAliveTasksResponse> done);

  /// Failures of tasks: they become the job's first cause, unless there is one. A divergence, and missing
  /// tasks, do not end the job, but are the cause if the job ends as a consequence.
  void handle(Section& section, CallId call, const Caller& caller, const ReportFailureRequest& request,
              Responder<ReportFailureResponse> done);

  /// Answered at once, also to processes that have not registered. The cost of the membership grows with the
  /// job's size.
  void handle(Section& section, CallId call, const Caller& caller, const DescribeRequest& request,
              Responder<DescribeResponse> done);

  /// Stores the call in a slot of the task, which must be empty.
  template <class Callback>
  void open(Call<Callback>& slot, int task, CallId id, std::type_identity_t<Callback> done) {
    slot = {id, std::move(done)};
    task_of_call_[id] = task;
    if constexpr (std::is_same_v<Callback, Registering>) ++registering_;
  }

  /// Removes the open call from the slot and returns it.
  template <class Callback>
  Callback take(Call<Callback>& slot) {
    task_of_call_.erase(slot.id);
    if constexpr (std::is_same_v<Callback, Registering>) --registering_;
    return std::exchange(slot.done, Callback());
  }

  Status stopped() const;
  /// Why a call of a process that knows this incarnation of the service is not served.
  std::optional<Status> refusal(std::uint64_t service) const;
  bool begins_anew(int task, std::uint64_t incarnation, const Caller& caller) const;
  void begin_anew(int attempt, Answers& answers);
  void end_all_calls(const Status& status, Code of_barriers, Answers& answers);
  BarrierTable::Listener barrier_listener();
  bool known(int task) const { return task >= 0 && task < num_tasks(); }
  Status unknown(int task) const;
  int num_tasks() const { return static_cast<int>(tasks_.size()); }
  std::string name(int task) const { return name_processes({task}, num_tasks()); }
  std::string name_with_place(const std::vector<int>& tasks) const;
  Failure failure(FailureKind kind, const std::vector<int>& tasks, const std::string& how) const;
  bool all_left_locked() const;
  std::vector<TaskInfo> infos() const;
  std::vector<int> of_state(TaskState state) const;

  jax::RegisterTaskResponse registered() const;
  void set_state(int task, TaskState state);
  void connect(int task, Answers& answers);
  void disconnect(int task, Answers& answers);
  void put_in_error(int task, const Status& error, Answers& answers);
  void remember(const Failure& failure);
  void fail_job(const Status& error, Answers& answers);
  void fail_registration(Status error, Answers& answers);
  void fail_shutdown(const Status& error, Answers& answers);
  void task_failed(const Failure& failure, Answers& answers);
  /// A task cancelled its open poll, or its connection closed: it is dead unless it leaves or polls again.
  void poll_lost(int task);
  void count_due_reports(Answers& answers);
  void barrier_failed(const BarrierTable::Failed& failed);
  void look_for_silent_tasks(Answers& answers);
  void registration_is_late(Answers& answers);
  void shutdown_is_late(Answers& answers);
  std::vector<int> not_come() const;
  void replaced(int task, Answers& answers);
  void leave_barriers(int task, const std::string& why, Answers& answers);
  void end_poll(int task, const Status& status, Answers& answers);
  jax::WatchTasksResponse watched() const;
  void answer_watchers(Answers& answers);
  bool all_alive_have_asked(const std::vector<int>& tasks, const AliveRound& round) const;
  void answer_alive_rounds(Answers& answers);

  const Clock& clock_;
  std::uint64_t incarnation_;  ///< of the current start of the job
  const Clock::Duration register_timeout_, heartbeat_timeout_, shutdown_timeout_, peer_report_grace_;
  const bool recoverable_, keep_;
  int attempt_;
  const std::optional<int> held_by_;
  const Whereabouts where_ = Whereabouts::own();

  mutable std::mutex mutex_;
  mutable std::condition_variable all_left_now_;
  std::vector<Task> tasks_;
  std::unordered_map<CallId, int> task_of_call_;  ///< of the open calls in the tasks' slots
  int registering_ = 0, wanting_to_leave_ = 0;
  std::array<int, 5> in_state_{};  ///< the number of tasks in each state
  std::int64_t version_ = 0;
  bool stopped_ = false;
  bool polled_ = false;  ///< whether any task has polled for errors
  bool shutdown_over_ = false;
  std::optional<Status> job_error_;
  std::optional<Failure> first_failure_;
  FailureNotes notes_;
  std::optional<Clock::TimePoint> register_deadline_, shutdown_deadline_;
  KeyValueTable values_;
  BarrierTable barriers_;
  std::map<CallId, Responder<jax::WatchTasksResponse>> watchers_;
  std::map<std::vector<int>, AliveRound> alive_rounds_;  ///< by the sorted set
};

}  // namespace lockstep::coordination
