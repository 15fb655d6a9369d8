// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/collectives/socket_address.h"

namespace lockstep::collectives {

/// For a socket of a TCP connection to another host, before or after it is connected: sends at once, and does
/// not end while nothing is sent (lockstep/base/keep_alive.h).
void prepare_connection(int socket);

/// The network interface that this host uses for connections to `address` ("host:port", "[v6]:port"); empty
/// if it cannot be determined. Sends nothing to the address; may resolve a name.
std::string interface_towards(const std::string& address);

/// The interfaces of this host, by name; empty if there is none.
struct InterfacesSeen {
  std::string towards_coordinator;  ///< may be the loopback
  std::string default_route;
  std::vector<std::string> with_addresses;  ///< those with addresses that other hosts can use: without the
                                            ///< loopback
};

/// The interface for connections to other hosts if the user has named none: the one towards the coordinator,
/// or, if the coordinator's name leads to this host's loopback or to nothing, that of the default route, or
/// else the only one. If there are several or none, throws an Error that lists them and names
/// LOCKSTEP_INTERFACE.
std::string choose_interface(const InterfacesSeen& seen);

/// The same for this host and the coordinator's address ("host:port", "[v6]:port", may be empty).
std::string interface_to_others(const std::string& coordinator);

/// An address, with port 0, at which other hosts reach this one: that of the first of these interfaces
/// ("eth0,ib0") with an address; if none is given, of interface_to_others. Throws Error if there is none.
SocketAddress own_address(const std::string& interfaces, const std::string& coordinator);

/// The first address of each network interface of this host, as bytes: 4 of IPv4, or else 16 of IPv6. Without
/// the loopback, and of the first 8 interfaces only.
std::vector<std::string> host_addresses();

/// The active ports of the RDMA devices of this host, "mlx5_0:1".
std::vector<std::string> rdma_devices();

}  // namespace lockstep::collectives
