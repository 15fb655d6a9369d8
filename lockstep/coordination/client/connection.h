// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <functional>
#include <memory>

#include "lockstep/coordination/identity/host_port.h"
#include "lockstep/coordination/identity/identity.h"
#include "lockstep/coordination/protocol/service.h"

namespace lockstep::coordination {

/// A client's connection to its coordinator; a lost one is made anew for the next call. If the identity has a
/// secret and there is no TLS, both sides prove that they have it (greeting.h) before gRPC gets the
/// connection: nothing else is believed or read of who listens there. Thread-safe.
class Connection {
 public:
  /// Throws InitializationError if a file of `tls` cannot be read.
  Connection(const HostPort& address, const Identity& identity, const TlsFiles& tls);
  ~Connection();  ///< closes
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Whether the other side has proved the secret before the first call.
  bool greets() const;

  /// Calls `then` once, with a channel, which lives as long as this, or with null and the reason:
  /// UNAVAILABLE if nobody can be reached; PERMISSION_DENIED of the service if the other side refuses or does
  /// not prove the secret; CANCELLED. With `waits`, waits until somebody can be reached. May call it from
  /// another thread, and does if there is no connection.
  using Then = std::function<void(const std::shared_ptr<grpc::Channel>&, const Status&)>;
  void use(CallId id, bool waits, Then then);

  /// A call that still waits for the connection ends with CANCELLED; false if there is none.
  bool cancel(CallId id);

  /// Whether the other side is connected now, and has proved the secret if it must.
  bool is_connected() const;

  /// Cancels all that waits. The channels still live.
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::coordination
