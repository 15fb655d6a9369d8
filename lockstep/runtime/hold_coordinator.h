// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/coordination/client/client.h"
#include "lockstep/coordination/server/server.h"
#include "lockstep/runtime/settings.h"

namespace lockstep::runtime {

/// The address at which process 0 listens. If the user gave none and there is no secret, it is the interface
/// of the job's coordinator address; all interfaces if that address is this host's loopback.
std::string coordinator_bind_address(const Settings& settings, const coordination::ClientOptions& client);

/// A coordinator of this process's job at that address.
coordination::ServerOptions server_options(const Settings& settings, std::string bind_address);

/// Starts the job's coordinator if this process must run it: it is process 0, the coordinator's address
/// belongs to this host (or the user gave an address to listen at), and no coordinator serves the job there.
/// Otherwise returns null, and process 0 logs why. Throws InitializationError if it cannot listen there, or
/// if another job's coordinator is there.
std::unique_ptr<coordination::CoordinationServer> hold_coordinator(const Settings& settings,
                                                                   const coordination::ClientOptions& client);

}  // namespace lockstep::runtime
