// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/coordination/identity/identity.h"
#include "lockstep/coordination/protocol/task.h"
#include "lockstep/coordination/state/server_options.h"

namespace lockstep::coordination {

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
