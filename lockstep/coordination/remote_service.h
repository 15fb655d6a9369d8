#pragma once

#include <memory>

#include "lockstep/coordination/address.h"
#include "lockstep/coordination/service.h"

namespace lockstep::coordination {

/// The coordination service behind the network, over a connection of its own. Every call carries the
/// identity. Registering waits until somebody listens at the address; other calls fail with UNAVAILABLE,
/// without payload, while nobody does. Where the identity has a secret, who serves has to prove before the
/// registration that it has it too: PERMISSION_DENIED if it cannot, as JAX's own service. The destructor
/// cancels what is open and blocks until all is answered.
class RemoteService : public Service {
 public:
  /// Whether who serves has the secret: OK also where the identity has none, so that nothing is asked.
  virtual void prove(CallId call, Done done) = 0;

  /// Whether somebody who speaks gRPC is at the other end now.
  virtual bool is_connected() const = 0;
};

/// Throws InitializationError if a file of `tls` cannot be read.
std::unique_ptr<RemoteService> make_remote_service(const HostPort& address, const Identity& identity = {},
                                                   const TlsFiles& tls = {});

}  // namespace lockstep::coordination
