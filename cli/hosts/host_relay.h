// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::cli {

/// `lockstep host-relay`, which the launcher, or another relay, runs on a host over which it reaches further
/// ones: runs the host's own agent and agents and relays on the others, and passes on what launcher and
/// agents say to each other. Ends all of them when standard input ends or is silent for too long.
/// cli/hosts/agent_protocol.h describes the messages. Returns the exit status.
int run_host_relay();

}  // namespace lockstep::cli
