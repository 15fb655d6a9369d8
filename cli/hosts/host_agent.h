// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::cli {

/// `lockstep host-agent`, which the launcher runs on each other host: starts the processes requested on
/// standard input, reports about them on standard output, and ends all of them when standard input ends or is
/// silent for too long. cli/hosts/agent_protocol.h describes the messages. Returns the exit status.
int run_host_agent();

}  // namespace lockstep::cli
