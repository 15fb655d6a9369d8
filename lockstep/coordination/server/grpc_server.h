// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/coordination/identity/credential.h"
#include "lockstep/coordination/identity/host_port.h"
#include "lockstep/coordination/identity/identity.h"
#include "lockstep/coordination/protocol/limits.h"
#include "lockstep/coordination/protocol/service.h"

namespace lockstep::coordination {

struct GrpcServerOptions {
  HostPort address;  ///< port 0: the kernel chooses one
  Limits limits;
  int num_processes = 1;  ///< the number of processes that may share one connection
  TlsFiles tls;
};

/// The service as processes see it over the network: JAX's coordination service over gRPC, and Lockstep's own
/// one. A process that the gate rejects gets the reason at its first call. Serves on threads of its own.
class GrpcServer {
 public:
  /// Binds and serves; `service` and `gate` must outlive it. Throws InitializationError if the address cannot
  /// be bound, and as read_certificates does.
  GrpcServer(Service& service, const Gate& gate, const GrpcServerOptions& options);
  ~GrpcServer();  ///< stops
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  int port() const;

  /// Ends the service. The service should answer open calls; waits 2 s for that. A second call does nothing.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::coordination
