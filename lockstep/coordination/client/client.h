// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/options.h"
#include "lockstep/coordination/client/key_value_store.h"
#include "lockstep/coordination/identity/identity.h"
#include "lockstep/coordination/protocol/task.h"

namespace lockstep::coordination {

/// The failure of the job, as reported by the coordinator: the first cause, the same for every process.
struct JobError {
  std::string message;  ///< "process 3 (host b, pid 4711) died: signal 9"; perhaps more lines below.
  std::optional<int>
      process;            ///< The process that failed, if one is to blame and the coordinator says which one.
  bool diverged = false;  ///< The first cause is a divergence: for a computation it is a DivergenceError.
};

struct ClientOptions {
  std::string address;  ///< The coordinator, "host:port".
  int process_id = 0;
  int num_processes = 1;
  Identity identity;  ///< Ignored by JAX's own coordinator.
  TlsFiles tls;       ///< all three or none

  std::chrono::milliseconds initialization_timeout =
      std::chrono::seconds(options::kInitializationTimeout.otherwise);
  std::chrono::milliseconds heartbeat_timeout = std::chrono::seconds(options::kHeartbeatTimeout.otherwise);
  std::chrono::milliseconds shutdown_timeout = std::chrono::seconds(options::kShutdownTimeout.otherwise);

  /// The time between two heartbeats; half of `heartbeat_timeout` if it is zero.
  std::chrono::milliseconds heartbeat_interval{0};

  /// Called once, by a thread of the client, when the job has failed: a process died or left, the
  /// coordinator is gone, or `fail` was called. It must not block and must not destroy the client.
  std::function<void(const JobError&)> on_error;
};

/// One process's membership of the job. All methods may be called from any thread; `connect` and `shutdown`
/// only once each. After the job has failed, blocking calls of this client end with PeerFailure: its first
/// line is the first cause, the next says what ended on this process as a consequence.
class CoordinationClient {
 public:
  /// Leaves silently if `shutdown` was not called: the coordinator counts the process as dead after its
  /// heartbeat timeout.
  virtual ~CoordinationClient() = default;

  /// Registers and blocks until all processes have. Then sends heartbeats and listens for errors in the
  /// background. The coordinator may start later than this. Throws InitializationError if it cannot be
  /// reached within `initialization_timeout` (the error says whether its name is not resolved, it refuses or
  /// does not answer), at once if it serves another job or start of the job, if the process id is out of
  /// range or taken, and if processes are missing at the deadline (naming them). While waiting it logs every
  /// ten seconds which have arrived and which are missing.
  virtual void connect() = 0;

  /// Blocks until all the given processes (all of the job if none are given) have called it with the same
  /// id and the same processes. An id may be any text, and be used repeatedly, by one thread at a time.
  /// Throws TimeoutError, naming the missing ones, if they do not arrive in time, PeerFailure if one of them
  /// has failed or left, and Error if the processes disagree about the barrier or this one does not belong to
  /// it.
  virtual void barrier(const std::string& id, std::chrono::milliseconds timeout,
                       const std::vector<int>& processes = {}) = 0;

  /// Calls `done` once: with the value when the key is set, or with nothing when the job has failed or this
  /// process leaves. From any thread, perhaps before this returns; `done` must not block. Between `connect`
  /// and `shutdown`. The key is as in KeyValueStore.
  virtual void when_set(const std::string& key, std::function<void(std::optional<std::string>)> done) = 0;

  /// The job's store; lives as long as the client. Use it only between `connect` and `shutdown`.
  virtual KeyValueStore& key_value_store() = 0;

  /// The error that ended the job, if there was one.
  virtual std::optional<JobError> error() const = 0;

  /// Reports the failure of other processes to the coordinator. It becomes the job's first cause for all,
  /// "process 3 (host b, pid 4711) died: its connections closed", unless there is one already or the process
  /// has left. A divergence is only recorded: it is the cause of later failures. Returns at once and never
  /// throws; the coordinator answers through `on_error`. Does nothing before `connect`, or with JAX's own
  /// coordinator.
  virtual void report_failure(const FailureReport& report) = 0;

  /// Blocks until the coordinator has received the reports; at most 2 s if it hangs.
  virtual void finish_reports() = 0;

  /// The same for this process, which ends with an error: "process 2 (host b, pid 4712) ended with an error:
  /// <what>". Blocks until the coordinator knows, for at most 2 s; never throws.
  virtual void report_own_error(const std::string& what) = 0;

  /// This process has found by itself that the job has failed: all blocking calls of this client, also
  /// connecting and leaving, end with PeerFailure of that cause, unless an earlier one is known. Does not
  /// tell the coordinator. Does not block.
  virtual void fail(const JobError& cause) = 0;

  /// Leaves: blocks until all processes do, then ends heartbeats and listening. Throws TimeoutError, naming
  /// the missing processes, and PeerFailure if a process fails meanwhile; the client has left in each case.
  /// After an error of the job it only leaves, does not wait for the others and throws nothing. A second call
  /// does nothing.
  virtual void shutdown() = 0;

  virtual int process_id() const = 0;
  virtual int num_processes() const = 0;

  /// A random number of this incarnation of the process. A report about it contains the number (Subject), so
  /// that it does not affect a later incarnation.
  virtual std::uint64_t incarnation() const = 0;
};

/// A client of a coordinator that speaks JAX's protocol over gRPC: CoordinationServer, or JAX's own service.
/// Throws InitializationError if the address is not "host:port" or the process id is negative.
std::unique_ptr<CoordinationClient> make_grpc_client(ClientOptions options);

}  // namespace lockstep::coordination
