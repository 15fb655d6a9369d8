// SPDX-License-Identifier: Apache-2.0
#pragma once

// The implementations of network.h; only for these and network.cc.

#include <memory>
#include <string_view>

#include "lockstep/collectives/network.h"

namespace lockstep::collectives {

std::shared_ptr<Network> open_tcp_network(const NetworkOptions& options);
std::shared_ptr<Network> open_ucx_network(const NetworkOptions& options);

/// How the addresses of TCP mailboxes begin; no others do.
inline constexpr std::string_view kTcpAddress = "lockstep-tcp ";

/// Throws the Error of a mailbox whose process uses `own` for one that uses `other`.
[[noreturn]] void throw_other_network(std::string_view own, std::string_view other);

}  // namespace lockstep::collectives
