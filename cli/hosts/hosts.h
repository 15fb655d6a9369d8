// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

/// A host and its number of processes; nullopt if it was not given.
struct HostSlots {
  std::string host;
  std::optional<int> slots;
};

/// Parses "a:2,b:2", "a,b", "user@a:2", "[fe80::1]:2", and "node[01-16,20]:2" with the ranges of Slurm's node
/// lists: a host for each number. For anything else throws an Error that names the part.
std::vector<HostSlots> parse_hosts(std::string_view text);

/// Parses a host file, with hosts in each line as for parse_hosts: "host slots=2" (also cpu= and count=),
/// "host:2" or "host". "#" begins a comment. Open MPI's limits (max_slots=) and MPICH's binding= and ifname=
/// are ignored, other words refused. A host that appears again gets this many more slots, one if there is no
/// number, as in the files of Slurm's SLURM_HOSTFILE and PBS. Errors name `source` and the line.
std::vector<HostSlots> parse_hostfile(std::string_view text, const std::string& source);

/// Processes `first` to `first + count - 1` on a host.
struct Placement {
  std::string host;
  int first = 0;
  int count = 0;
};

/// Places the processes in blocks, in the order of the hosts. If any host has a number, those without one
/// take one process each; otherwise the processes are distributed evenly, with the remainder on the first
/// hosts. Without `num_processes` every place is used. If a host is given twice, its places are added. Hosts
/// without processes are left out. Throws Error if there are fewer places than processes.
std::vector<Placement> place_processes(const std::vector<HostSlots>& hosts, std::optional<int> num_processes);

/// The same without the lost hosts: nullopt if the remaining places are not enough. If no host has a number,
/// each has places for its even share.
std::optional<std::vector<Placement>> place_around(const std::vector<HostSlots>& hosts, int num_processes,
                                                   const std::set<std::string>& lost);

/// Parses "none", "0,8-15": numbers of processes, below `num_processes`. Errors name the option.
std::set<int> parse_processes(const std::string& option, std::string_view text, int num_processes);

/// "user@b" without its user.
std::string without_user(const std::string& host);

/// "a, b, c"; after some names a count of the rest.
std::string name_some_hosts(const std::vector<std::string>& names);

}  // namespace lockstep::cli
