#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep::collectives {

/// The address and port of a socket, of IPv4 or IPv6.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  /// Of "10.0.0.1:4711" or "[fe80::1%eth0]:4711"; nullopt where it is none.
  static std::optional<SocketAddress> parse(const std::string& text);
  std::string to_string() const;

  int family() const { return storage.ss_family; }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// The network interface whose address this host has when it talks to `address` ("host:port", "[v6]:port");
/// empty where that is not to be found out. Sends nothing; may ask for the address of a name.
std::string interface_towards(const std::string& address);

/// What this host has to choose from. Names of interfaces; empty where there is none.
struct InterfacesSeen {
  std::string towards_coordinator;  ///< Perhaps the loopback.
  std::string default_route;
  std::vector<std::string> with_addresses;  ///< That other hosts may know: without the loopback.
};

/// The one by which other hosts are reached, where the user has named none: towards the coordinator, or,
/// where its name leads to this host's loopback or to nothing, of the default route, or else the only one
/// there is. Throws Error, which lists them and names LOCKSTEP_INTERFACE, where there are several or none.
std::string choose_interface(const InterfacesSeen& seen);

/// The same for this host and the coordinator's address ("host:port", "[v6]:port", may be empty).
std::string interface_to_others(const std::string& coordinator);

/// An address at which other hosts reach this one, with port 0: of the first of these interfaces ("eth0,ib0")
/// that has one; where none is given, of interface_to_others. Throws Error where there is none.
SocketAddress own_address(const std::string& interfaces, const std::string& coordinator);

}  // namespace lockstep::collectives
