#pragma once

#include <string>

namespace lockstep::cli {

/// The file of this program.
std::string own_program();

/// Whether the name, as a user gives it, is surely this host's: localhost, a loopback address, or its own
/// name, with or without its domain.
bool is_this_host(const std::string& name);

/// Whether the numeric address is one of this host's.
bool is_own_address(const std::string& address);

/// The address of the network interface; IPv4 where it has one. Throws Error, naming the interfaces that have
/// addresses, where there is none.
std::string address_of_interface(const std::string& name);

/// The address that this host would use to talk to the other one, by the table of routes; nothing is sent.
/// Empty where the name is not resolved or there is no route.
std::string address_towards(const std::string& host);

}  // namespace lockstep::cli
