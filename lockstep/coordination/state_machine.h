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
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/coordination/answers.h"
#include "lockstep/coordination/barrier_table.h"
#include "lockstep/coordination/failure_notes.h"
#include "lockstep/coordination/key_value_table.h"
#include "lockstep/coordination/server.h"
#include "lockstep/coordination/service.h"

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

  void register_task(CallId call, const Registrant& who, DoneWith<std::uint64_t> done) override;
  void heartbeat(CallId call, std::uint64_t service, int task, std::uint64_t incarnation, Done done) override;
  void poll_for_error(CallId call, std::uint64_t service, int task, Done done) override;
  void shutdown_task(CallId call, std::uint64_t service, int task, Done done) override;
  void watch_tasks(CallId call, std::uint64_t service, std::int64_t version,
                   DoneWith<WatchedTasks> done) override;
  void insert(CallId call, std::uint64_t service, const std::string& key, const std::string& value,
              bool allow_overwrite, Done done) override;
  void get(CallId call, std::uint64_t service, const std::string& key, DoneWith<Value> done) override;
  void try_get(CallId call, std::uint64_t service, const std::string& key, DoneWith<Value> done) override;
  void increment(CallId call, std::uint64_t service, const std::string& key, std::int64_t by,
                 DoneWith<std::string> done) override;
  void get_directory(CallId call, std::uint64_t service, const std::string& key,
                     DoneWith<KeyValues> done) override;
  void erase(CallId call, std::uint64_t service, const std::string& key, Done done) override;
  void barrier(CallId call, std::uint64_t service, const BarrierCall& request,
               DoneWith<std::int64_t> done) override;
  void cancel_barrier(CallId call, std::uint64_t service, const std::string& id, std::int64_t counter,
                      Done done) override;
  void get_alive_tasks(CallId call, std::uint64_t service, int source, const std::vector<int>& tasks,
                       DoneWith<std::vector<AliveTask>> done) override;

  void report_failure(CallId call, std::uint64_t service, const FailureReport& report, Done done) override;
  void describe(CallId call, bool with_roll, DoneWith<Description> done) override;

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
    Call<DoneWith<std::uint64_t>> registering;
    Call<Done> polling, leaving;
    bool wants_to_leave = false;
  };
  /// The tasks that have asked which tasks of one set are alive.
  struct AliveRound {
    struct Query {
      int source = 0;
      DoneWith<std::vector<AliveTask>> done;
    };
    std::map<int, int> asked;  ///< the number of open calls of each task
    std::map<CallId, Query> calls;
  };
  class Section;

  /// Stores the call in a slot of the task, which must be empty.
  template <class Callback>
  void open(Call<Callback>& slot, int task, CallId id, Callback done) {
    slot = {id, std::move(done)};
    task_of_call_[id] = task;
    if constexpr (std::is_same_v<Callback, DoneWith<std::uint64_t>>) ++registering_;
  }

  /// Removes the open call from the slot and returns it.
  template <class Callback>
  Callback take(Call<Callback>& slot) {
    task_of_call_.erase(slot.id);
    if constexpr (std::is_same_v<Callback, DoneWith<std::uint64_t>>) --registering_;
    return std::exchange(slot.done, nullptr);
  }

  std::optional<Status> refusal(std::uint64_t service) const;
  bool begins_anew(const Registrant& who) const;
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
  std::map<CallId, DoneWith<WatchedTasks>> watchers_;
  std::map<std::vector<int>, AliveRound> alive_rounds_;  ///< by the sorted set
};

}  // namespace lockstep::coordination
