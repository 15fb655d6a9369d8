// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/base/options.h"
#include "lockstep/coordination/identity.h"
#include "lockstep/coordination/limits.h"
#include "lockstep/coordination/task.h"

namespace lockstep::coordination {

struct ServerOptions {
  std::string bind_address = "127.0.0.1:0";  ///< "host:port", "[v6]:port"; port 0: the kernel chooses one
  int num_processes = 1;
  Identity identity;
  bool allow_jax =
      false;     ///< Accepts processes that cannot prove their identity, although there is a secret.
  TlsFiles tls;  ///< all three or none

  /// The process of the job that runs the coordinator; nullopt if it runs alone or in a launcher.
  std::optional<int> held_by;

  /// From the first to the last arrival.
  std::chrono::milliseconds register_timeout =
      std::chrono::seconds(options::kInitializationTimeout.otherwise);

  /// Not shorter than the clients'.
  std::chrono::milliseconds heartbeat_timeout = std::chrono::seconds(options::kHeartbeatTimeout.otherwise);

  /// 0: processes do not wait for the others.
  std::chrono::milliseconds shutdown_timeout = std::chrono::seconds(options::kShutdownTimeout.otherwise);

  /// How long a process's report that another one died waits for a better one, such as the launcher's, which
  /// knows the signal.
  std::chrono::milliseconds peer_report_grace{0};

  /// A process may die and return while the others continue: they are not told of its failure.
  bool recoverable = false;

  /// Stays for later starts of the job: a process that registers once all have left, or once the job has
  /// failed, or with a later attempt, begins a new one, in which nothing of the one before is left.
  bool keep = false;

  Limits limits;

  const Clock* clock = nullptr;  ///< Decides all timeouts; the machine's clock if null.
};

/// The coordinator of one job: JAX's coordination service over gRPC, and Lockstep's own beside it. A process
/// of another job or another start of it, or without the secret, is refused at its first call. Without TLS
/// all is plain text. Serves from threads of its own; every method may be called from any thread.
class CoordinationServer {
 public:
  CoordinationServer();
  ~CoordinationServer();  ///< stops
  CoordinationServer(const CoordinationServer&) = delete;
  CoordinationServer& operator=(const CoordinationServer&) = delete;

  /// Binds and serves. Throws InitializationError if the address cannot be bound, saying why (in use, not
  /// an address of this host, no permission), if the options are invalid, as read_certificates, and if it
  /// serves already. It logs who can come in if that is not only the job: without a secret everybody who
  /// reaches the port, and with `allow_jax` as well if it listens on a network.
  void start(const ServerOptions& options);

  /// The bound port; 0 before `start`.
  int port() const;

  /// "host:port" with the host as given to `start` and the port bound. A wildcard host becomes 127.0.0.1 or
  /// [::1], good for clients on this host only. Empty before `start`.
  std::string address() const;

  /// The same with a wildcard host as it was given.
  std::string bound_address() const;

  /// The launcher saw the process end, as `message` says in full ("process 3 (host b, pid 4711) died: signal
  /// 9"). It becomes the first failure unless there is an earlier one, which may take until
  /// `peer_report_grace` is over, and all others are told the first. If the process had left cleanly and
  /// there is no other failure, it is recorded as the first, but not reported to others.
  void report_task_failure(int task, const std::string& message, FailureKind kind = FailureKind::kDied);

  /// No better report will come: what was reported counts now.
  void settle_reports();

  /// Where a process started by the launcher runs; the process's own statement takes precedence.
  void set_whereabouts(int task, const Whereabouts& where);

  /// All processes, by id; empty before `start`.
  std::vector<TaskInfo> tasks() const;

  /// Whether no process is left that could still call: each has disconnected or failed. True before
  /// `start`.
  bool all_left() const;

  /// The first failure of the job; nullopt if there is none.
  std::optional<Failure> first_failure() const;

  /// Blocks until `all_left`; returns false after the timeout.
  bool wait_until_all_left(std::chrono::milliseconds timeout) const;

  /// Ends the service. Open calls are told that the coordinator has stopped. A second call does nothing.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::coordination
