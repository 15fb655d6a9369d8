// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/server.h"

#include <chrono>
#include <mutex>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/coordination/address.h"
#include "lockstep/coordination/credential.h"
#include "lockstep/coordination/front.h"
#include "lockstep/coordination/host.h"

namespace lockstep::coordination {

class CoordinationServer::Impl {
 public:
  explicit Impl(const ServerOptions& options)
      : address_(parse_address(options.bind_address)),
        gate_(options.identity, options.allow_jax, options.keep),
        host_(options) {
    if (options.allow_jax && options.tls.given()) {
      fail<InitializationError>(
          "processes of JAX speak plain text, so that a coordinator with TLS cannot let them in; give "
          "either");
    }
    front_ = std::make_unique<Front>(
        host_.machine(), gate_, FrontOptions{address_, options.limits, options.num_processes, options.tls});
    address_.port = front_->port();
    if (options.identity.secret.empty() && !options.tls.given() && !is_loopback(address_)) {
      logging::warning(
          "the coordinator at {} is open to all who reach it, because the job has no secret; give all its "
          "processes the same LOCKSTEP_JOB_SECRET",
          address_.to_string());
    }
    if (address_.host == "0.0.0.0") address_.host = "127.0.0.1";
    if (address_.host == "::") address_.host = "::1";
  }

  ~Impl() { stop(); }

  void stop() {
    host_.machine().stop();
    front_->stop();
  }

  StateMachine& machine() { return host_.machine(); }
  const HostPort& address() const { return address_; }

 private:
  HostPort address_;
  const Gate gate_;
  Host host_;
  std::unique_ptr<Front> front_;
};

CoordinationServer::CoordinationServer() = default;
CoordinationServer::~CoordinationServer() = default;

void CoordinationServer::start(const ServerOptions& options) {
  if (impl_) fail<InitializationError>("the coordinator serves already, at {}; start another one", address());
  impl_ = std::make_unique<Impl>(options);
}

int CoordinationServer::port() const { return impl_ ? impl_->address().port : 0; }
std::string CoordinationServer::address() const { return impl_ ? impl_->address().to_string() : ""; }

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
