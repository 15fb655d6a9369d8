// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/server/server.h"

#include <chrono>
#include <mutex>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/coordination/identity/credential.h"
#include "lockstep/coordination/identity/host_port.h"
#include "lockstep/coordination/server/grpc_server.h"
#include "lockstep/coordination/state/coordinator.h"

namespace lockstep::coordination {

class CoordinationServer::Impl {
 public:
  explicit Impl(const ServerOptions& options)
      : address_(parse_address(options.bind_address)),
        gate_(options.identity, options.allow_jax, options.keep),
        coordinator_(options) {
    if (options.allow_jax && options.tls.given()) {
      fail<InitializationError>(
          "processes of JAX speak plain text, so a coordinator with TLS cannot accept them; give allow_jax "
          "or certificates, not both");
    }
    server_ = std::make_unique<GrpcServer>(
        coordinator_.machine(), gate_,
        GrpcServerOptions{address_, options.limits, options.num_processes, options.tls});
    address_.port = server_->port();
    bound_ = address_;
    warn_if_open(options);
    if (address_.host == "0.0.0.0") address_.host = "127.0.0.1";
    if (address_.host == "::") address_.host = "::1";
  }

  ~Impl() { stop(); }

  void stop() {
    coordinator_.machine().stop();
    server_->stop();
  }

  StateMachine& machine() { return coordinator_.machine(); }
  const HostPort& address() const { return address_; }
  const HostPort& bound() const { return bound_; }

 private:
  void warn_if_open(const ServerOptions& options) const {
    if (options.tls.given()) return;
    const bool local = is_loopback(bound_);
    if (options.identity.secret.empty()) {
      logging::warning(
          "the coordinator at {} is open to {}, because the job has no secret; give all its processes the "
          "same LOCKSTEP_JOB_SECRET",
          bound_.to_string(), local ? "all users of this host" : "everybody who reaches it");
    } else if (options.allow_jax && !local) {
      logging::warning(
          "the coordinator at {} is open to everybody who reaches it, because --allow-jax accepts processes "
          "that do not prove that they have the job's secret; use it only on a network that only the job's "
          "hosts can reach",
          bound_.to_string());
    }
  }

  HostPort address_, bound_;
  const Gate gate_;
  Coordinator coordinator_;
  std::unique_ptr<GrpcServer> server_;
};

CoordinationServer::CoordinationServer() = default;
CoordinationServer::~CoordinationServer() = default;

void CoordinationServer::start(const ServerOptions& options) {
  if (impl_) fail<InitializationError>("the coordinator already serves at {}; start another one", address());
  impl_ = std::make_unique<Impl>(options);
}

int CoordinationServer::port() const { return impl_ ? impl_->address().port : 0; }
std::string CoordinationServer::address() const { return impl_ ? impl_->address().to_string() : ""; }
std::string CoordinationServer::bound_address() const { return impl_ ? impl_->bound().to_string() : ""; }

void CoordinationServer::report_task_failure(int task, const std::string& message, FailureKind kind) {
  if (impl_) impl_->machine().report_task_failure({kind, {task}, message});
}

void CoordinationServer::settle_reports() {
  if (impl_) impl_->machine().settle_reports();
}

void CoordinationServer::set_whereabouts(int task, const Whereabouts& where) {
  if (impl_) impl_->machine().set_whereabouts(task, where);
}

std::vector<TaskInfo> CoordinationServer::tasks() const {
  return impl_ ? impl_->machine().tasks() : std::vector<TaskInfo>{};
}

bool CoordinationServer::all_left() const { return !impl_ || impl_->machine().all_left(); }

std::optional<Failure> CoordinationServer::first_failure() const {
  return impl_ ? impl_->machine().first_failure() : std::nullopt;
}

bool CoordinationServer::wait_until_all_left(std::chrono::milliseconds timeout) const {
  return !impl_ || impl_->machine().wait_until_all_left(timeout);
}

void CoordinationServer::stop() {
  if (impl_) impl_->stop();
}

}  // namespace lockstep::coordination
