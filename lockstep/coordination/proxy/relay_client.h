// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/coordination/identity/host_port.h"
#include "lockstep/coordination/identity/identity.h"
#include "lockstep/coordination/protocol/service.h"

namespace lockstep::coordination {

/// The coordination service over the network, like RemoteService, for the many processes of a host. All calls
/// are sent over one stream (job.proto, Relay); calls that arrive while it is busy are sent together, and
/// equal calls of a procedure that says so are sent once. Every message proves the identity's secret. Once
/// the stream has ended, which it does when the coordinator ends, all calls end with UNAVAILABLE, or with the
/// reason of its rejection.
class RelayClient : public Service {
 public:
  /// Ends the stream, and blocks until all calls are answered.
  virtual void close() = 0;
};

/// Throws InitializationError if a file of `tls` cannot be read. The destructor closes the stream.
std::unique_ptr<RelayClient> make_relay_client(const HostPort& address, const Identity& identity,
                                               const TlsFiles& tls);

}  // namespace lockstep::coordination
