#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/coordination/status.h"
#include "lockstep/coordination/task.h"

namespace lockstep::coordination {

/// Names a call, so that it can be cancelled. The caller draws it.
using CallId = std::uint64_t;

/// A number no other call of this process has.
CallId next_call_id();

using Done = std::function<void(Status)>;
template <class T>
using DoneWith = std::function<void(Status, T)>;
/// Shared, because many may wait for one large value; null with an error.
using Value = std::shared_ptr<const std::string>;
using KeyValues = std::vector<std::pair<std::string, std::string>>;

/// A process that comes.
struct Registrant {
  int task = 0;
  std::uint64_t incarnation = 0;  ///< Drawn by the process.
  Whereabouts where = {};
  int attempt = 0;
};

/// Of the coordinator, for messages.
struct Description {
  std::string roll;                       ///< Who has come and which are missing, where it was asked for.
  Whereabouts where = {};                 ///< Of the process that serves.
  std::optional<int> task = {};           ///< The task that serves, where one does.
  std::uint64_t service_incarnation = 0;  ///< For who has not registered.
};

struct BarrierCall {
  std::string id;
  std::int64_t counter = 0;  ///< The instance: 0 for the first use of the id, then one more each time.
  std::int64_t timeout_ms = 0;
  std::vector<int> tasks;  ///< Empty: all.
  int source = 0;
};

struct WatchedTasks {
  std::vector<TaskInfo> tasks;
  std::int64_t version = 0;
};

struct AliveTask {
  int task = 0;
  std::uint64_t incarnation = 0;
};

/// The coordination service as its agents see it, in this process or over the network. Each call returns at
/// once and is answered exactly once, through `done`, perhaps before it returns and by any thread; `done`
/// must not block and may call the service. A task is a process id; `service` is the service's incarnation as
/// the agent knows it, and a wrong one fails any call with INTERNAL and the right one in the status. On an
/// error the value given to `done` means nothing.
class Service {
 public:
  virtual ~Service() = default;

  /// Waits until all tasks have registered; gives the service's incarnation. ALREADY_EXISTS where another
  /// process takes the task over meanwhile, DEADLINE_EXCEEDED at the register timeout, ABORTED if the task
  /// is connected with another incarnation or has failed, INVALID_ARGUMENT for an id out of range.
  virtual void register_task(CallId call, const Registrant& who, DoneWith<std::uint64_t> done) = 0;

  /// Says that the task lives. ABORTED if it has failed or its incarnation is another.
  virtual void heartbeat(CallId call, std::uint64_t service, int task, std::uint64_t incarnation,
                         Done done) = 0;

  /// Waits for the job's error, and is answered with it; CANCELLED when the task has left or polls again.
  virtual void poll_for_error(CallId call, std::uint64_t service, int task, Done done) = 0;

  /// Waits until all tasks have called it, then all are disconnected. INTERNAL when that fails.
  virtual void shutdown_task(CallId call, std::uint64_t service, int task, Done done) = 0;

  /// All tasks, at once if `version` is not the current one, otherwise at the next change.
  virtual void watch_tasks(CallId call, std::uint64_t service, std::int64_t version,
                           DoneWith<WatchedTasks> done) = 0;

  /// ALREADY_EXISTS where the key exists and must not be overwritten.
  virtual void insert(CallId call, std::uint64_t service, const std::string& key, const std::string& value,
                      bool allow_overwrite, Done done) = 0;

  /// Waits for the key.
  virtual void get(CallId call, std::uint64_t service, const std::string& key, DoneWith<Value> done) = 0;

  /// NOT_FOUND where the key does not exist.
  virtual void try_get(CallId call, std::uint64_t service, const std::string& key, DoneWith<Value> done) = 0;

  /// The new value as decimal text; FAILED_PRECONDITION if the old one is no number or the sum is too
  /// large.
  virtual void increment(CallId call, std::uint64_t service, const std::string& key, std::int64_t by,
                         DoneWith<std::string> done) = 0;

  virtual void get_directory(CallId call, std::uint64_t service, const std::string& key,
                             DoneWith<KeyValues> done) = 0;
  virtual void erase(CallId call, std::uint64_t service, const std::string& key, Done done) = 0;

  /// Waits for all tasks of the barrier; gives the instance's counter, as every error's payload does.
  /// DEADLINE_EXCEEDED, INVALID_ARGUMENT where the callers disagree on the tasks, INTERNAL where a task fails
  /// or leaves or the counter is not the service's, CANCELLED after `cancel_barrier`.
  virtual void barrier(CallId call, std::uint64_t service, const BarrierCall& request,
                       DoneWith<std::int64_t> done) = 0;

  /// Fails the instance for all that wait for it. FAILED_PRECONDITION if it is not going on.
  virtual void cancel_barrier(CallId call, std::uint64_t service, const std::string& id, std::int64_t counter,
                              Done done) = 0;

  /// Waits until all connected tasks of the set have asked with the same set; gives them.
  virtual void get_alive_tasks(CallId call, std::uint64_t service, int source, const std::vector<int>& tasks,
                               DoneWith<std::vector<AliveTask>> done) = 0;

  /// What has happened to tasks: the job's first cause, unless there is one. A divergence, and that tasks are
  /// missing, does not end the job by itself, but is the cause where the job ends in consequence.
  virtual void report_failure(CallId call, std::uint64_t service, const FailureReport& report, Done done) = 0;

  /// Answered at once, to those who have not registered too; `with_roll` costs as much as the job is large. A
  /// service of JAX's answers UNIMPLEMENTED, here and to `report_failure`.
  virtual void describe(CallId call, bool with_roll, DoneWith<Description> done) = 0;

  /// The caller has gone: the call, if not answered yet, is answered with CANCELLED, soon or before this
  /// returns.
  virtual void cancel(CallId call) = 0;
};

}  // namespace lockstep::coordination
