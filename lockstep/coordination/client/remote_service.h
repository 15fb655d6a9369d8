// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/coordination/identity/host_port.h"
#include "lockstep/coordination/protocol/service.h"

namespace lockstep::coordination {

/// The coordination service over the network, over a connection of its own. Every call carries the identity.
/// Registering waits until a server listens at the address; other calls fail with UNAVAILABLE, without
/// payload, if there is none. If the identity has a secret, the server must prove before the registration
/// that it has it, too; otherwise, as for JAX's own service, PERMISSION_DENIED. The destructor cancels open
/// calls and blocks until all are answered.
class RemoteService : public Service {
 public:
  /// Whether the server has the secret: also OK, without a request, if the identity has none.
  virtual void prove(CallId call, Done done) = 0;

  /// Whether a gRPC server is at the other end now.
  virtual bool is_connected() const = 0;
};

/// Throws InitializationError if a file of `tls` cannot be read.
std::unique_ptr<RemoteService> make_remote_service(const HostPort& address, const Identity& identity = {},
                                                   const TlsFiles& tls = {});

}  // namespace lockstep::coordination
