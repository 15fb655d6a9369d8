// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/coordination/client/agent.h"
#include "lockstep/coordination/client/client.h"
#include "lockstep/coordination/state/coordinator.h"

namespace lockstep::coordination {

/// A coordinator within this process: the same state machine and the same client logic as over gRPC, with
/// plain calls between them. `bind_address` is ignored. Must outlive its clients.
class InMemoryCoordinator {
 public:
  explicit InMemoryCoordinator(const ServerOptions& options) : coordinator_(options) {}

  /// A client to be used as one process, by its own thread. `options.address` is ignored.
  std::unique_ptr<CoordinationClient> make_client(ClientOptions options) {
    options.address = "(in memory)";
    std::shared_ptr<Service> service(&coordinator_.machine(), [](Service*) {});
    return make_agent(std::move(options), std::move(service), [] { return std::string(); });
  }

  void report_task_failure(int task, const std::string& message) {
    coordinator_.machine().report_task_failure({FailureKind::kDied, {task}, message});
  }
  std::vector<TaskInfo> tasks() const { return coordinator_.machine().tasks(); }
  bool all_left() const { return coordinator_.machine().all_left(); }
  bool wait_until_all_left(std::chrono::milliseconds timeout) const {
    return coordinator_.machine().wait_until_all_left(timeout);
  }

  /// The state machine itself, for calls of a misbehaving process.
  Service& service() { return coordinator_.machine(); }

 private:
  mutable Coordinator coordinator_;
};

}  // namespace lockstep::coordination
