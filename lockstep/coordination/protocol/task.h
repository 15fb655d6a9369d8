// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/coordination/identity/identity.h"

namespace lockstep::coordination {

/// The state of a process of the job. The numbers are the protocol's.
enum class TaskState { kUninitialized = 1, kDisconnected = 2, kConnected = 3, kError = 4 };

/// The name of the state, such as "connected".
const char* to_string(TaskState state);

/// The coordinator's information about one process.
struct TaskInfo {
  int task = 0;
  TaskState state = TaskState::kUninitialized;
  std::uint64_t incarnation =
      0;                 ///< 0 before the process arrived; set while it waits for the others to register
  bool leaving = false;  ///< it has called shutdown and waits for the others
  std::string error;     ///< why it is in kError; empty otherwise
  int error_code = 0;    ///< the gRPC code of `error`
  Clock::Duration silent_for{0};  ///< since its last heartbeat, while it is connected
  Whereabouts where;              ///< as it reported when it registered
};

/// Kinds of failures that may end the job. The numbers are those of job.proto.
enum class FailureKind {
  kDied = 0,            ///< "process 3 (host b, pid 4711) died: its connections closed"
  kEndedWithError = 1,  ///< "process 3 (host b, pid 4711) ended with an error: bad input"
  kLeftEarly = 2,       ///< "process 3 (host b, pid 4711) left the job early: process 0 of 4 waited for it"
  kDiverged = 3,        ///< "process 3 (host b, pid 4711) diverged: process 0 of 4 is in psum ..."
  kMissing = 4,         ///< "process 3 (host b, pid 4711) did not come in time: after 300 s ..."
  kStalled = 5,         ///< "process 3 (host b, pid 4711) holds up the job: stalled for 600 s ..."
};

/// The text of such a failure; `name` is the result of `name_process`.
std::string describe_failure(const std::string& name, FailureKind kind, const std::string& how);

/// The subject of a report.
struct Subject {
  int task = 0;
  std::uint64_t incarnation = 0;  ///< the incarnation of the process; 0: any
};

/// A process's report to the coordinator about others, or about itself.
struct FailureReport {
  FailureKind kind = FailureKind::kDied;
  std::vector<Subject> subjects;
  std::string how;  ///< "its connections closed"
};

/// A failure as it is reported to all processes.
struct Failure {
  FailureKind kind = FailureKind::kDied;
  std::vector<int> processes;  ///< The failed processes; for a divergence, the minority.
  std::string message;         ///< `describe_failure`; may be followed by more lines

  friend bool operator==(const Failure& a, const Failure& b) = default;
};

/// "process 3 (host b, pid 4711)", or "process 3" if nothing more is known.
std::string name_process(int task, const Whereabouts& where);

/// The same for several: "processes 0 (host a, pid 17), 3 (host b, pid 4711)"; after the first eight a count.
std::string name_processes(const std::vector<int>& tasks, const std::function<Whereabouts(int)>& where);

/// "process 3 of 4", or "processes 0, 2, 3 of 8"; after the first eight a count of the rest.
std::string name_processes(const std::vector<int>& tasks, int num_tasks);

}  // namespace lockstep::coordination
