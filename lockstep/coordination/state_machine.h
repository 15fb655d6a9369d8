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
#include "lockstep/coordination/key_value_table.h"
#include "lockstep/coordination/server.h"
#include "lockstep/coordination/service.h"

namespace lockstep::coordination {

/// The coordination service itself: all its state and rules, and nothing of the network. Time passes for it
/// only in `tick`. Thread-safe.
///
/// A task is uninitialized until all have registered, connected from then on, disconnected once it has left,
/// and in error once it was silent for longer than the heartbeat timeout, was replaced, or was reported dead.
/// The first error is told to everybody who polls and is kept. In recoverable mode nobody else is told, and
/// the task may register again.
class StateMachine : public Service {
 public:
  /// Of the options, the times and `num_processes` count. Throws InitializationError where these make no
  /// sense.
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

  void report_failure(CallId call, std::uint64_t service, int task, const std::string& how, FailureKind kind,
                      Done done) override;
  void describe(CallId call, DoneWith<Description> done) override;

  /// A registrant that is cancelled has not arrived; a caller of a barrier or of shutdown still has.
  void cancel(CallId call) override;

  /// Does all that is due by now: silent tasks, and the deadlines of barriers, registration and shutdown.
  void tick();

  void report_task_failure(int task, const std::string& message);  ///< As CoordinationServer.
  std::vector<TaskInfo> tasks() const;
  bool all_left() const;
  std::optional<std::string> first_failure() const;
  bool wait_until_all_left(std::chrono::milliseconds timeout) const;  ///< Of the machine's time.
  std::uint64_t incarnation() const { return incarnation_; }

  /// Answers all that waits, and from now on every call, with UNAVAILABLE (ABORTED for a barrier).
  void stop();

 private:
  template <class Callback>
  struct Call {
    CallId id = 0;
    Callback done;  ///< Empty: no call is open.
  };
  struct Task {
    TaskState state = TaskState::kUninitialized;
    std::uint64_t incarnation = 0;
    Whereabouts where;
    Clock::TimePoint last_heard, disconnected_at;
    Status error;
    Call<DoneWith<std::uint64_t>> registering;
    Call<Done> polling, leaving;
    bool wants_to_leave = false;
  };
  /// That a task died, as another one saw it; told once its time has come.
  struct Report {
    int task = 0;
    std::string message;
    Clock::TimePoint due;
  };
  struct AliveQuery {
    CallId id = 0;
    int source = 0;
    std::set<int> tasks;
    DoneWith<std::vector<AliveTask>> done;
  };
  class Section;

  /// Puts the call into a slot, which must be empty, of the task.
  template <class Callback>
  void open(Call<Callback>& slot, int task, CallId id, Callback done) {
    slot = {id, std::move(done)};
    task_of_call_[id] = task;
    if constexpr (std::is_same_v<Callback, DoneWith<std::uint64_t>>) ++registering_;
  }

  /// Takes the open call of the slot out.
  template <class Callback>
  Callback take(Call<Callback>& slot) {
    task_of_call_.erase(slot.id);
    if constexpr (std::is_same_v<Callback, DoneWith<std::uint64_t>>) --registering_;
    return std::exchange(slot.done, nullptr);
  }

  std::optional<Status> refusal(std::uint64_t service) const;
  bool known(int task) const { return task >= 0 && task < num_tasks(); }
  Status unknown(int task) const;
  int num_tasks() const { return static_cast<int>(tasks_.size()); }
  std::string name(int task) const { return name_processes({task}, num_tasks()); }
  std::string name_with_place(int task) const { return name_process(task, tasks_[task].where); }
  bool all_left_locked() const;
  std::vector<TaskInfo> infos() const;
  std::vector<int> of_state(TaskState state) const;

  void set_state(int task, TaskState state);
  void connect(int task, Answers& answers);
  void disconnect(int task, Answers& answers);
  void put_in_error(int task, const Status& error, Answers& answers);
  void fail_job(const Status& error, Answers& answers);
  void fail_registration(Status error, Answers& answers);
  void fail_shutdown(const std::string& why, std::optional<int> source, Answers& answers);
  void task_failed(int task, const std::string& message, Answers& answers);
  void replaced(int task, Answers& answers);
  void leave_barriers(int task, const std::string& why, Answers& answers);
  void end_poll(int task, const Status& status, Answers& answers);
  void answer_watchers(Answers& answers);
  void answer_alive_queries(Answers& answers);

  const Clock& clock_;
  const std::uint64_t incarnation_;
  const Clock::Duration register_timeout_, heartbeat_timeout_, shutdown_timeout_, peer_report_grace_;
  const bool recoverable_;
  const std::optional<int> held_by_;
  const Whereabouts where_ = Whereabouts::own();

  mutable std::mutex mutex_;
  mutable std::condition_variable all_left_now_;
  std::vector<Task> tasks_;
  std::unordered_map<CallId, int> task_of_call_;  ///< Of the calls open in the tasks' slots.
  int registering_ = 0, wanting_to_leave_ = 0;
  std::array<int, 5> in_state_{};  ///< How many tasks, by state.
  std::int64_t version_ = 0;
  bool stopped_ = false;
  bool polled_ = false;  ///< Whether any task has ever polled for errors.
  bool shutdown_over_ = false;
  std::optional<Status> job_error_;
  std::optional<std::string> first_failure_;
  std::optional<Clock::TimePoint> register_deadline_, shutdown_deadline_;
  KeyValueTable values_;
  BarrierTable barriers_;
  std::map<CallId, DoneWith<WatchedTasks>> watchers_;
  std::vector<AliveQuery> alive_queries_;
  std::vector<Report> reports_;
};

}  // namespace lockstep::coordination
