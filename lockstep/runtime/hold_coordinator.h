#pragma once

#include <memory>
#include <string>

#include "lockstep/coordination/client.h"
#include "lockstep/coordination/server.h"
#include "lockstep/runtime/settings.h"

namespace lockstep::runtime {

/// Where process 0 listens. Where nobody said it and there is no secret to keep others out, it is the
/// interface that the job's coordinator address names; all of them where that name leads to this host's
/// loopback.
std::string coordinator_bind_address(const Settings& settings, const coordination::ClientOptions& client);

/// The job's coordinator, serving, where this process has to hold it: it is process 0, the coordinator's
/// address is one of this host's (or the user said where to listen), and nobody serves the job there. Null
/// otherwise; in process 0 a line of the log then says why. Throws InitializationError where it cannot listen
/// there, and where somebody serves another job there.
std::unique_ptr<coordination::CoordinationServer> hold_coordinator(const Settings& settings,
                                                                   const coordination::ClientOptions& client);

}  // namespace lockstep::runtime
