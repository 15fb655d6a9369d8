#pragma once

#include <memory>

#include "lockstep/coordination/address.h"
#include "lockstep/coordination/service.h"

namespace lockstep::coordination {

/// The coordination service behind the network, as RemoteService, for the many processes of a host: all calls
/// go over one stream (job.proto, Relay), those that come while it is busy together, and of several that get
/// one key at a time one asks for it. Every message proves the identity's secret. Once the stream has ended,
/// which it does when the coordinator does, all calls end with UNAVAILABLE, or as it was refused.
class RelayClient : public Service {
 public:
  /// Ends the stream, and blocks until all calls are answered.
  virtual void close() = 0;
};

/// Throws InitializationError where a file of `tls` cannot be read. The destructor closes.
std::unique_ptr<RelayClient> make_relay_client(const HostPort& address, const Identity& identity,
                                               const TlsFiles& tls);

}  // namespace lockstep::coordination
