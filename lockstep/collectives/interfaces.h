#pragma once

#include <string>

namespace lockstep::collectives {

/// The network interface whose address this host has when it talks to `address` ("host:port", "[v6]:port");
/// empty where that is not to be found out. Sends nothing; may ask for the address of a name.
std::string interface_towards(const std::string& address);

}  // namespace lockstep::collectives
