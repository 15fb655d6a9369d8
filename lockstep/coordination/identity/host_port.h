// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

namespace lockstep::coordination {

/// A host, by name or address, and a port of it. A socket's own address is a collectives::SocketAddress.
struct HostPort {
  std::string host;  ///< Without the brackets of an IPv6 address.
  int port = 0;

  std::string to_string() const;  ///< "host:port" or "[v6]:port".
};

/// Reads "host:port" or "[v6]:port". Throws InitializationError for anything else.
HostPort parse_address(const std::string& text);

/// Tries to connect, for at most the timeout (and the resolver's own). Returns "" if something listens there.
/// Otherwise says whether the name is not resolved, the connection is refused, or there is no answer; and
/// what to do.
std::string why_unreachable(const HostPort& address, std::chrono::milliseconds timeout);

/// A connected non-blocking socket; -1, and the reason in `why`, if there is no answer within the timeout, or
/// the descriptor `wake`, unless it is -1, becomes readable.
int connect_to(const HostPort& address, std::chrono::milliseconds timeout, int wake = -1,
               std::string* why = nullptr);

/// Tries to bind; returns the reason if it fails, "" if it works.
std::string why_not_bindable(const HostPort& address);

/// Whether the host is an address of this host, so that a server can be bound to it; false if it is not
/// resolved.
bool is_of_this_host(const HostPort& address);

/// Whether only processes of this host can reach a server bound there.
bool is_loopback(const HostPort& address);

}  // namespace lockstep::coordination
