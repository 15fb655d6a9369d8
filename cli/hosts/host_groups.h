// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace lockstep::cli {

/// How many other hosts the launcher, and each relay, starts agents on itself. Connections to more would take
/// much of one process's time.
inline constexpr int kHostFanOut = 32;

/// Hosts `first` to `first + count - 1` of a job that are reached through one connection: to an agent on the
/// host, if it is only one, and otherwise to a relay on the first host (cli/hosts/host_relay.h).
struct HostGroup {
  int first = 0;
  int count = 0;
};

/// The groups for each of which a process that must reach these hosts starts one command itself. A relay
/// starts its own host's agent, and reaches the other hosts of its group by the same rule. There are at most
/// `fan_out` groups, in order; their sizes differ by one at most, the larger ones first.
std::vector<HostGroup> host_groups(int first, int count, int fan_out);

}  // namespace lockstep::cli
