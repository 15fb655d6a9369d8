// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::cli {

/// The path of this program's file.
std::string own_program();

/// Whether the user's name is certainly this host: localhost, a loopback address, or its own name, with or
/// without the domain.
bool is_this_host(const std::string& name);

/// Whether the numeric address is one of this host's.
bool is_own_address(const std::string& address);

/// The address of the network interface; IPv4 if it has one. If it has none, throws an Error that lists the
/// interfaces with addresses.
std::string address_of_interface(const std::string& name);

/// The address that this host would use for connections to the other one, according to the routing table;
/// nothing is sent. Empty if the name is not resolved or there is no route.
std::string address_towards(const std::string& host);

}  // namespace lockstep::cli
