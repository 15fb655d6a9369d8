#pragma once

namespace lockstep::cli {

/// `lockstep host-agent`, which the launcher runs on each other host: starts the processes that it is told to
/// by standard input, tells by standard output what becomes of them, and ends all of them when standard input
/// ends or is silent for too long. The words are those of cli/agent_protocol.h. Returns the exit status.
int run_host_agent();

}  // namespace lockstep::cli
