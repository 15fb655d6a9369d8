#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/coordination/identity.h"
#include "lockstep/coordination/key_value_store.h"
#include "lockstep/coordination/task.h"

namespace lockstep::coordination {

/// The failure of the job, as reported by the coordinator: the first cause, the same for every process.
struct JobError {
  std::string message;  ///< "process 3 (host b, pid 4711) died: signal 9"; perhaps more lines below.
  std::optional<int>
      process;  ///< The process that failed, where one is to blame and the coordinator says which.
};

struct ClientOptions {
  std::string address;  ///< The coordinator, "host:port".
  int process_id = 0;
  int num_processes = 1;
  Identity identity;  ///< Not looked at by a coordinator of JAX's.
  TlsFiles tls;       ///< All three or none.

  std::chrono::milliseconds initialization_timeout = std::chrono::seconds(300);
  std::chrono::milliseconds heartbeat_timeout = std::chrono::seconds(100);
  std::chrono::milliseconds shutdown_timeout = std::chrono::seconds(300);

  /// Time between two heartbeats; half of `heartbeat_timeout` where it is zero.
  std::chrono::milliseconds heartbeat_interval{0};

  /// Called once, by a thread of the client, when the job has failed: a process died or left, the
  /// coordinator is gone, or `fail` was called. It must not block and must not destroy the client.
  std::function<void(const JobError&)> on_error;
};

/// One process's membership of the job. All methods may be called from any thread, but `connect` and
/// `shutdown` once each. Once the job has failed, whatever blocks in this client, or would, ends with
/// PeerFailure: its first line is the first cause, the next says what ended here in consequence.
class CoordinationClient {
 public:
  /// Leaves without a word where `shutdown` was not called: the coordinator takes the process for dead after
  /// its heartbeat timeout.
  virtual ~CoordinationClient() = default;

  /// Registers and blocks until all processes have. Then sends heartbeats and listens for errors in the
  /// background. The coordinator may start later than this. Throws InitializationError if it cannot be
  /// reached within `initialization_timeout` (its name is not resolved, it refuses, it does not answer: told
  /// apart), at once where it serves another job or start of the job, where the process id is out of range or
  /// taken, and where processes are missing at the deadline (naming them). While it waits it logs every ten
  /// seconds who has come and which are missing.
  virtual void connect() = 0;

  /// Blocks until all the given processes (all of the job where none are given) have called it with the same
  /// id and the same processes. An id may be used again and again, by one thread at a time. Throws
  /// TimeoutError, naming which are missing, when they do not come in time, PeerFailure when one of them has
  /// failed or left, and Error when the processes disagree about the barrier or this one does not belong to
  /// it.
  virtual void barrier(const std::string& id, std::chrono::milliseconds timeout,
                       const std::vector<int>& processes = {}) = 0;

  /// Calls `done` once: with the value when somebody has set the key, or with nothing when the job has failed
  /// or this process leaves. By any thread, perhaps before it returns; `done` must not block. Between
  /// `connect` and `shutdown`.
  virtual void when_set(const std::string& key, std::function<void(std::optional<std::string>)> done) = 0;

  /// The job's store; lives as long as the client. Only to be used between `connect` and `shutdown`.
  virtual KeyValueStore& key_value_store() = 0;

  /// The error that ended the job, if there was one.
  virtual std::optional<JobError> error() const = 0;

  /// Tells the coordinator what happened to other processes, which makes it the job's first cause for all,
  /// "process 3 (host b, pid 4711) died: its connections closed", unless there is one already or the process
  /// has left. A divergence is only noted: it is the cause of what fails after it. Returns at once and never
  /// throws; the word of the coordinator comes by `on_error`. Nothing happens before `connect`, or where the
  /// coordinator is JAX's own.
  virtual void report_failure(const FailureReport& report) = 0;

  /// Blocks until the coordinator has received the reports; at most 2 s if it hangs.
  virtual void finish_reports() = 0;

  /// The same of this process, which ends with an error: "process 2 (host b, pid 4712) ended with an error:
  /// <what>". Blocks until the coordinator knows, for at most 2 s; never throws.
  virtual void report_own_error(const std::string& what) = 0;

  /// This process knows by itself that the job has failed: whatever blocks in this client, connecting and
  /// leaving included, ends with PeerFailure of that cause, unless an earlier one is known. The coordinator
  /// is not told. Does not block.
  virtual void fail(const JobError& cause) = 0;

  /// Leaves: blocks until all processes do, then ends heartbeats and listening. Throws TimeoutError, naming
  /// who is missing, and PeerFailure when a process fails meanwhile; the client has left in each case. After
  /// an error of the job it only says good-bye, does not wait for the others and throws nothing. A second
  /// call does nothing.
  virtual void shutdown() = 0;

  virtual int process_id() const = 0;
  virtual int num_processes() const = 0;

  /// A number that this life of the process has drawn. Who is to report of it names it (Subject), so that
  /// what he saw harms no later life.
  virtual std::uint64_t incarnation() const = 0;
};

/// A client of a coordinator that speaks JAX's protocol over gRPC: CoordinationServer, or JAX's own service.
/// Throws InitializationError if the address is not "host:port" or the process id is negative.
std::unique_ptr<CoordinationClient> make_grpc_client(ClientOptions options);

}  // namespace lockstep::coordination
