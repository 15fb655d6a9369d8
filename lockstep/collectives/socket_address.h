// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>

namespace lockstep::collectives {

/// The address and port of a socket, IPv4 or IPv6. One whose host may be a name is a coordination::HostPort.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  /// From "10.0.0.1:4711" or "[fe80::1%eth0]:4711"; nullopt for any other text.
  static std::optional<SocketAddress> parse(const std::string& text);
  std::string to_string() const;

  int family() const { return storage.ss_family; }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

}  // namespace lockstep::collectives
