#pragma once

#include <string>
#include <vector>

#include "lockstep/collectives/communicator.h"
#include "lockstep/collectives/world.h"

namespace lockstep::collectives {

/// How the members of a group lie on hosts.
struct HostLayout {
  HostLayout(const std::vector<Member>& members, const WorldOptions& options);

  std::vector<std::vector<int>> hosts;  ///< The ranks on each host, ascending; the hosts by their first rank.
  std::vector<int> host_of, index_of;   ///< Of each rank: its host, and its place among the host's ranks.
  std::vector<int> before;              ///< Of each host: how many members those before it have.
  int carriers = 0;                     ///< The number of members on the host that has fewest,
  int most = 0;                         ///< and on the one that has most.

  /// Whether all hosts have the same number of members.
  bool is_even() const { return carriers == most; }

  int host_count() const { return static_cast<int>(hosts.size()); }
  int local_count(int host) const { return static_cast<int>(hosts[host].size()); }
  int leader(int host) const { return hosts[host].front(); }
  bool same_host(int a, int b) const { return host_of[a] == host_of[b]; }
};

/// A digest of who the members are.
Fingerprint group_number(const std::vector<Member>& members);

/// The same for all members that are in this, their `count`-th operation, with the same call; never 0.
std::uint64_t operation_number(Fingerprint group, std::uint64_t count, const Call& call);

/// How messages call a member: "process 1 of 4", "device 2 of process 1 of 4".
std::string describe_member(const std::vector<Member>& members, int rank, int process_count);

}  // namespace lockstep::collectives
