// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/collectives/communicator.h"
#include "lockstep/collectives/world.h"

namespace lockstep::collectives {

/// How the members of a group are distributed over hosts.
struct HostLayout {
  HostLayout(const std::vector<Member>& members, const WorldOptions& options);

  std::vector<std::vector<int>> hosts;  ///< the ranks on each host, ascending; hosts are ordered by their
                                        ///< first rank
  std::vector<int> host_of, index_of;   ///< for each rank its host, and its index among the host's ranks
  std::vector<int> before;              ///< for each host the number of members on the hosts before it
  int carriers = 0;                     ///< the number of members on the host with the fewest
  int most = 0;                         ///< the number of members on the host with the most

  /// Whether all hosts have the same number of members.
  bool is_even() const { return carriers == most; }

  int host_count() const { return static_cast<int>(hosts.size()); }
  int local_count(int host) const { return static_cast<int>(hosts[host].size()); }
  int leader(int host) const { return hosts[host].front(); }
  bool same_host(int a, int b) const { return host_of[a] == host_of[b]; }
};

/// A digest of the members.
Fingerprint group_number(const std::vector<Member>& members);

/// Operation number `count` of the group; Operation::number is not 0.
Operation operation_of(Fingerprint group, std::uint64_t count, const Call& call);

/// The name of a member in messages: "process 1 of 4", "device 2 of process 1 of 4".
std::string describe_member(const std::vector<Member>& members, int rank, int process_count);

}  // namespace lockstep::collectives
