// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/coordination/identity/credential.h"
#include "lockstep/coordination/identity/host_port.h"
#include "lockstep/coordination/protocol/limits.h"

namespace lockstep::coordination {

/// Accepts connections on a thread of its own, passes those to a server whose other side belongs to the job
/// (greeting.h), and prevents strangers from using up the resources that the job needs. Where others are let
/// in as well, as without a secret, the server gets all that speak HTTP/2; with TLS it gets all connections.
/// All methods may be called from any thread.
class Listener {
 public:
  /// Takes ownership of a connected, non-blocking socket.
  using Take = std::function<void(int socket)>;

  /// Binds to all addresses of the host; with port 0 the kernel chooses the port. Throws InitializationError,
  /// with the reason, if that fails.
  /// `gate` decides who belongs to the job, and must outlive it; nullptr with TLS.
  Listener(const HostPort& address, const Limits& limits, const Gate* gate);
  ~Listener();  ///< stops
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const;

  /// Begins to accept.
  void start(Take take);

  /// A call of this peer of the server, "ipv4:10.0.0.1:4711" in gRPC's form, was accepted: it is no longer a
  /// stranger.
  void let_in(const std::function<std::string()>& peer);

  /// Whether the peer is one that `let_in` was not called for yet.
  bool is_stranger(const std::function<std::string()>& peer) const;

  /// Stops accepting connections. A second call does nothing.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::coordination
