// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/host_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace lockstep::collectives {

HostLayout::HostLayout(const std::vector<Member>& members, const WorldOptions& options)
    : host_of(members.size()), index_of(members.size()) {
  std::map<std::string, int> known;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    const std::string name = options.process_host.empty() ? "" : options.process_host[members[rank].process];
    const auto [it, added] = known.try_emplace(name, host_count());
    if (added) hosts.emplace_back();
    host_of[rank] = it->second;
    index_of[rank] = static_cast<int>(hosts[it->second].size());
    hosts[it->second].push_back(static_cast<int>(rank));
  }
  int sum = 0;
  carriers = static_cast<int>(members.size());
  for (const std::vector<int>& ranks : hosts) {
    before.push_back(sum);
    const auto count = static_cast<int>(ranks.size());
    sum += count;
    carriers = std::min(carriers, count);
    most = std::max(most, count);
  }
}

Fingerprint group_number(const std::vector<Member>& members) {
  std::string text;
  for (const Member& member : members) text += fmt::format("{},", member.device);
  return fingerprint(text);
}

Operation operation_of(Fingerprint group, std::uint64_t count, const Call& call) {
  return {combine(combine(group, count), call.signature) | 1, group, count};
}

std::string describe_member(const std::vector<Member>& members, int rank, int process_count) {
  const Member& member = members[rank];
  const auto same_process = [&](const Member& other) { return other.process == member.process; };
  if (std::count_if(members.begin(), members.end(), same_process) == 1) {
    return fmt::format("process {} of {}", member.process, process_count);
  }
  return fmt::format("device {} of process {} of {}", member.device, member.process, process_count);
}

}  // namespace lockstep::collectives
