#pragma once

#include <chrono>
#include <string>

#include "lockstep/coordination/address.h"
#include "lockstep/coordination/identity.h"

namespace lockstep::coordination {

/// Tries what gRPC does not tell: why a connection with these files (plain text where there are none) and who
/// listens at the address do not come together, in a clause that says what to set. Empty if nothing speaks
/// against it, or nobody says anything within the timeout. Throws as Tls::load.
std::string why_no_common_tls(const HostPort& address, const TlsFiles& files,
                              std::chrono::milliseconds timeout);

}  // namespace lockstep::coordination
