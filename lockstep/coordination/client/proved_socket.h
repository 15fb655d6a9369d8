// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/file_descriptor.h"
#include "lockstep/coordination/identity/host_port.h"
#include "lockstep/coordination/identity/identity.h"
#include "lockstep/coordination/identity/status.h"

namespace lockstep::coordination {

/// Connects to a coordinator without TLS, and lets both sides prove the secret (greeting.h). Blocks for at
/// most 5 s for each of its addresses and 20 s for the answer. OK, and the connected non-blocking `socket`.
/// Otherwise PERMISSION_DENIED with the service's reason, or because the other side cannot prove the secret;
/// UNAVAILABLE if it cannot be reached; CANCELLED when the descriptor `wake`, unless it is -1, is readable.
Status connect_proved(const HostPort& address, const Identity& identity, int wake, FileDescriptor& socket);

/// The error of a process whose coordinator cannot prove the secret.
Status unproved(const HostPort& address, const std::string& reason = "");

}  // namespace lockstep::coordination
