#pragma once

#include <memory>

#include "lockstep/coordination/address.h"
#include "lockstep/coordination/service.h"

namespace lockstep::coordination {

/// The coordination service behind the network, over a connection of its own. Every call carries the
/// identity. Throws InitializationError where a file of `tls` cannot be read. Registering waits until
/// somebody listens at the address; other calls fail with UNAVAILABLE, without payload, while nobody does.
/// The destructor cancels what is open and blocks until all is answered.
std::unique_ptr<Service> make_remote_service(const HostPort& address, const Identity& identity = {},
                                             const TlsFiles& tls = {});

}  // namespace lockstep::coordination
