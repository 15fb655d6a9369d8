// SPDX-License-Identifier: Apache-2.0
#pragma once

// The implementations of network.h; only for these and network.cc.

#include <memory>
#include <string_view>

#include "lockstep/collectives/network.h"

namespace lockstep::collectives {

std::shared_ptr<Network> open_tcp_network(const NetworkOptions& options);
std::shared_ptr<Network> open_ucx_network(const NetworkOptions& options);

/// How the addresses of TCP mailboxes begin, in plain text and with TLS, which are as long; no others do.
inline constexpr std::string_view kTcpAddress = "lockstep-tcp ", kTlsAddress = "lockstep-tls ";
static_assert(kTcpAddress.size() == kTlsAddress.size());

/// Throws the Error of a mailbox whose process uses `own` for one that uses `other`.
[[noreturn]] void throw_other_network(std::string_view own, std::string_view other);

/// The same where only one of the two encrypts; `own`: this one does.
[[noreturn]] void throw_other_encryption(bool own);

}  // namespace lockstep::collectives
