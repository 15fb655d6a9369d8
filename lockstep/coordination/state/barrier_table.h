// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/coordination/protocol/service.h"
#include "lockstep/coordination/protocol/task.h"
#include "lockstep/coordination/state/answers.h"

namespace lockstep::coordination {

/// A task's call of a barrier.
struct BarrierCall {
  std::string id;
  std::int64_t counter = 0;  ///< the instance: 0 for the first use of the id, then one more each time
  std::int64_t timeout_ms = 0;
  std::vector<int> tasks;  ///< empty: all
  int source = 0;
};

/// All barriers of the service. A barrier has an id and instances, counted from 0; the first valid call
/// of an id fixes the members, for all instances, and the first caller of an instance its deadline. The
/// outcome of the last instance is kept and repeated to late callers; of finished barriers, the last
/// kMostKept are kept. A forgotten one begins again with the count of its first caller. Not
/// thread-safe.
class BarrierTable {
 public:
  static constexpr std::size_t kMostKept = 4096;

  /// An instance that failed because of some of its tasks.
  struct Failed {
    std::string id;
    FailureKind kind = FailureKind::kMissing;  ///< or kLeftEarly
    std::vector<int> because_of;
    std::vector<int> members;  ///< empty: all
    std::string why;
  };
  struct Listener {
    std::function<void(const Failed&)> failed;
    std::function<void(const std::string& id)> passed;
  };

  BarrierTable(int num_tasks, Listener listener) : num_tasks_(num_tasks), listener_(std::move(listener)) {}

  /// `why_failed` gives the reason why a task cannot take part, or nullopt if it can.
  void call(CallId call, const BarrierCall& request, Clock::TimePoint now,
            const std::function<std::optional<std::string>(int)>& why_failed, DoneWith<std::int64_t> done,
            Answers& answers);

  Status cancel_barrier(const std::string& id, std::int64_t counter, Answers& answers);

  /// Fails every current barrier of which the task, which has left or failed, is a member.
  void task_gone(int task, const std::string& why, bool has_left, Answers& answers);

  /// In recoverable mode the task only leaves the current barriers: its calls are answered with CANCELLED,
  /// and it does not count as arrived.
  void withdraw(int task, const std::string& why, Answers& answers);

  /// The task has restarted its count: its next call of an id, with instance 0, means the current instance,
  /// or the next one.
  void task_restarted(int task) { ++lives_[task]; }

  /// Fails barriers that are past their deadline.
  void tick(Clock::TimePoint now, Answers& answers);

  /// As in StateMachine.
  void stood_still(Clock::TimePoint now, Clock::Duration how_long);

  /// The number of barriers that are remembered.
  std::size_t size() const { return barriers_.size(); }

  /// The caller is gone: its call is answered with `status`, but it counts as arrived.
  void cancel(CallId call, const Status& status, Answers& answers);

  /// Fails all current barriers.
  void fail_all(Code code, const std::string& why, Answers& answers);

 private:
  struct Arrival {
    CallId call = 0;
    DoneWith<std::int64_t> done;  ///< empty once the caller is gone
  };
  struct Barrier {
    bool of_all = false;
    std::optional<std::vector<int>> tasks;  ///< sorted; unset before the first valid call, and for of_all
    std::int64_t counter = 0;
    bool going_on = false;
    Status result;  ///< of the last instance, once it is over
    Clock::TimePoint deadline;
    std::int64_t timeout_ms = 0;
    std::map<int, Arrival> arrived;
    std::map<int, int> called_in_life;  ///< by task, for restarted tasks
    std::optional<std::list<std::string>::iterator> in_over;
  };

  Status error(Code code, const std::string& id, std::int64_t counter, const std::string& why,
               std::optional<int> source = std::nullopt) const;
  void fail(const std::string& id, Barrier& barrier, Code code, const std::string& why, Answers& answers,
            std::optional<int> source = std::nullopt);
  void finish(const std::string& id, Barrier& barrier, Status result, Answers& answers);
  std::int64_t instance_meant(const BarrierCall& request, Barrier& barrier);
  void arrive(CallId call, const BarrierCall& request, Barrier& barrier, DoneWith<std::int64_t> done,
              Answers& answers);
  std::string why_invalid(const BarrierCall& request, const Barrier& barrier) const;
  std::vector<int> missing(const Barrier& barrier) const;
  void tell_failed(const std::string& id, const Barrier& barrier, FailureKind kind,
                   const std::vector<int>& because_of, const std::string& why) const;

  bool takes_part(const Barrier& barrier, int task) const;
  std::size_t members(const Barrier& barrier) const;
  void keep_few();

  int num_tasks_;
  Listener listener_;
  std::unordered_map<std::string, Barrier> barriers_;
  std::set<std::string> going_on_;
  std::list<std::string> over_;  ///< oldest first
  bool has_forgotten_ = false;
  std::map<int, int> lives_;  ///< the number of restarts, by task
  std::unordered_map<CallId, std::pair<std::string, int>>
      waiting_;  ///< the barrier id and task of each open call
};

}  // namespace lockstep::coordination
