// SPDX-License-Identifier: Apache-2.0
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

/// Identifies a call, so that it can be cancelled. Chosen by the caller.
using CallId = std::uint64_t;

/// A number that no other call of this process has.
CallId next_call_id();

using Done = std::function<void(Status)>;
template <class T>
using DoneWith = std::function<void(Status, T)>;
/// Shared, because many may wait for one large value; null in case of an error.
using Value = std::shared_ptr<const std::string>;
using KeyValues = std::vector<std::pair<std::string, std::string>>;

/// A process that registers.
struct Registrant {
  int task = 0;
  std::uint64_t incarnation = 0;  ///< chosen by the process
  Whereabouts where = {};
  int attempt = 0;
};

/// A description of the coordinator, for messages.
struct Description {
  std::string roll;              ///< which processes have arrived and which are missing, if requested
  Whereabouts where = {};        ///< of the process that serves
  std::optional<int> task = {};  ///< the task that serves, if it is one
  std::uint64_t service_incarnation = 0;  ///< for processes that have not registered
};

struct BarrierCall {
  std::string id;
  std::int64_t counter = 0;  ///< the instance: 0 for the first use of the id, then one more each time
  std::int64_t timeout_ms = 0;
  std::vector<int> tasks;  ///< empty: all
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
/// once and is answered exactly once, through `done`, perhaps before it returns and on any thread; `done`
/// must not block and may call the service. A task is a process id. `service` is the service's incarnation as
/// the agent knows it; a wrong one fails any call with INTERNAL, and the status contains the right one. In
/// case of an error the value passed to `done` is meaningless.
class Service {
 public:
  virtual ~Service() = default;

  /// Waits until all tasks have registered; returns the service's incarnation. ALREADY_EXISTS if another
  /// process takes over the task meanwhile, DEADLINE_EXCEEDED at the register timeout, ABORTED if the task is
  /// connected with another incarnation or has failed, INVALID_ARGUMENT for an id out of range.
  virtual void register_task(CallId call, const Registrant& who, DoneWith<std::uint64_t> done) = 0;

  /// Reports that the task is alive. ABORTED if it has failed or has another incarnation.
  virtual void heartbeat(CallId call, std::uint64_t service, int task, std::uint64_t incarnation,
                         Done done) = 0;

  /// Waits for the job's error, which is the answer; CANCELLED when the task has left or polls again.
  virtual void poll_for_error(CallId call, std::uint64_t service, int task, Done done) = 0;

  /// Waits until all tasks have called it; then all are disconnected. INTERNAL if that fails.
  virtual void shutdown_task(CallId call, std::uint64_t service, int task, Done done) = 0;

  /// All tasks: at once if `version` is not the current one, otherwise at the next change.
  virtual void watch_tasks(CallId call, std::uint64_t service, std::int64_t version,
                           DoneWith<WatchedTasks> done) = 0;

  /// ALREADY_EXISTS if the key exists and `allow_overwrite` is false.
  virtual void insert(CallId call, std::uint64_t service, const std::string& key, const std::string& value,
                      bool allow_overwrite, Done done) = 0;

  /// Waits for the key.
  virtual void get(CallId call, std::uint64_t service, const std::string& key, DoneWith<Value> done) = 0;

  /// NOT_FOUND if the key does not exist.
  virtual void try_get(CallId call, std::uint64_t service, const std::string& key, DoneWith<Value> done) = 0;

  /// The new value as decimal text; FAILED_PRECONDITION if the old one is not a number or the sum is too
  /// large.
  virtual void increment(CallId call, std::uint64_t service, const std::string& key, std::int64_t by,
                         DoneWith<std::string> done) = 0;

  virtual void get_directory(CallId call, std::uint64_t service, const std::string& key,
                             DoneWith<KeyValues> done) = 0;
  virtual void erase(CallId call, std::uint64_t service, const std::string& key, Done done) = 0;

  /// Waits for all tasks of the barrier; returns the instance's counter, which is also the payload of every
  /// error. DEADLINE_EXCEEDED; INVALID_ARGUMENT if the callers disagree on the tasks; INTERNAL if a task
  /// fails or leaves or the counter is not the service's; CANCELLED after `cancel_barrier`.
  virtual void barrier(CallId call, std::uint64_t service, const BarrierCall& request,
                       DoneWith<std::int64_t> done) = 0;

  /// Fails the instance for all that wait for it. FAILED_PRECONDITION if it is not in progress.
  virtual void cancel_barrier(CallId call, std::uint64_t service, const std::string& id, std::int64_t counter,
                              Done done) = 0;

  /// Waits until all connected tasks of the set have called it with the same set; returns them.
  virtual void get_alive_tasks(CallId call, std::uint64_t service, int source, const std::vector<int>& tasks,
                               DoneWith<std::vector<AliveTask>> done) = 0;

  /// Reports failures of tasks: they become the job's first cause, unless there is one. A divergence, and
  /// missing tasks, do not end the job, but are the cause if the job ends as a consequence.
  virtual void report_failure(CallId call, std::uint64_t service, const FailureReport& report, Done done) = 0;

  /// Answered at once, also for processes that have not registered. The cost of `with_roll` grows with the
  /// size of the job. JAX's service answers UNIMPLEMENTED, here and for `report_failure`.
  virtual void describe(CallId call, bool with_roll, DoneWith<Description> done) = 0;

  /// The caller is gone: an unanswered call is answered with CANCELLED, soon or before this returns.
  virtual void cancel(CallId call) = 0;
};

}  // namespace lockstep::coordination
