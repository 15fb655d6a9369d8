// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "lockstep/base/clock.h"
#include "lockstep/base/options.h"
#include "lockstep/coordination/identity/identity.h"
#include "lockstep/coordination/protocol/limits.h"

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

  /// Stays for later starts of the job: a process that registers once the job has failed, or with a later
  /// attempt, begins a new one, in which nothing of the one before is left. Without it, one of
  /// Lockstep's processes that registers once all have left does so, too; unless a process holds the
  /// coordinator, which then ends with its job.
  bool keep = false;

  Limits limits;

  const Clock* clock = nullptr;  ///< Decides all timeouts; the machine's clock if null.
};

}  // namespace lockstep::coordination
