// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/coordination/address.h"
#include "lockstep/coordination/limits.h"

namespace lockstep::coordination {

/// Accepts connections on a thread of its own, passes them to a server, and prevents strangers from using up
/// the resources that the job needs. All methods may be called from any thread.
class Listener {
 public:
  /// Takes ownership of a connected, non-blocking socket.
  using Take = std::function<void(int socket)>;

  /// Binds to all addresses of the host; with port 0 the kernel chooses the port. Throws InitializationError,
  /// with the reason, if that fails.
  Listener(const HostPort& address, const Limits& limits);
  ~Listener();  ///< stops
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const;

  /// Begins to accept.
  void start(Take take);

  /// A call of this peer, "ipv4:10.0.0.1:4711" in gRPC's form, was accepted: it is no longer a stranger.
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
