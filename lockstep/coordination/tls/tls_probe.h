// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "lockstep/coordination/identity/host_port.h"
#include "lockstep/coordination/identity/identity.h"

namespace lockstep::coordination {

/// Finds out what gRPC does not report: why a connection with these files (plain text if there are none) to
/// the server at the address fails, as a clause that says what to set. Empty if there is no obstacle, or no
/// answer within the timeout. Throws as Tls::load does.
std::string why_no_common_tls(const HostPort& address, const TlsFiles& files,
                              std::chrono::milliseconds timeout);

}  // namespace lockstep::coordination
