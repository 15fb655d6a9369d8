#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/coordination/client.h"
#include "lockstep/coordination/server.h"
#include "lockstep/coordination/task.h"

namespace lockstep::coordination {

class Service;

/// A coordinator within this process, for tests: the same state machine and the same client logic as over
/// gRPC, with plain calls between them. `bind_address` is ignored. Must outlive its clients.
class InMemoryCoordinator {
 public:
  explicit InMemoryCoordinator(const ServerOptions& options);
  ~InMemoryCoordinator();
  InMemoryCoordinator(const InMemoryCoordinator&) = delete;
  InMemoryCoordinator& operator=(const InMemoryCoordinator&) = delete;

  /// A client to be used as one process, by its own thread. `options.address` is ignored.
  std::unique_ptr<CoordinationClient> make_client(ClientOptions options);

  void report_task_failure(int task, const std::string& message,
                           FailureKind kind = FailureKind::kDied);  ///< As CoordinationServer.
  std::vector<TaskInfo> tasks() const;
  bool all_left() const;
  bool wait_until_all_left(std::chrono::milliseconds timeout) const;

  /// The state machine itself, to call it as a process that does not behave would.
  Service& service();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::coordination
