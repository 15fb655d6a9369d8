#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

/// A host and how many processes it takes; nullopt where that was not said.
struct HostSlots {
  std::string host;
  std::optional<int> slots;
};

/// Reads "a:2,b:2", "a,b", "user@a:2", "[fe80::1]:2". Throws Error, naming the part, for anything else.
std::vector<HostSlots> parse_hosts(std::string_view text);

/// Reads a host file, a host a line: "host slots=2", "host:2" or "host"; "#" begins a comment, other words
/// NAME=VALUE of Open MPI's are passed over. A host that comes again gets so many more, without a number one
/// more; so it is in the files that Slurm's SLURM_HOSTFILE and PBS name. `source` is named in errors, with
/// the line.
std::vector<HostSlots> parse_hostfile(std::string_view text, const std::string& source);

/// Processes `first` to `first + count - 1` on a host.
struct Placement {
  std::string host;
  int first = 0;
  int count = 0;
};

/// Places the processes in blocks, hosts in their order. Where a host has a number, those without take one
/// process each; where none has, the processes are spread evenly, the first hosts taking those left over.
/// Without `num_processes` every place is taken. A host given twice is one with the places of both. Hosts
/// that take none are left out. Throws Error where there are fewer places than processes.
std::vector<Placement> place_processes(const std::vector<HostSlots>& hosts, std::optional<int> num_processes);

/// The same without the hosts that are lost: nullopt where the places of the others do not suffice. Where no
/// host has a number, each has places for its even share.
std::optional<std::vector<Placement>> place_around(const std::vector<HostSlots>& hosts, int num_processes,
                                                   const std::set<std::string>& lost);

/// "user@b" without its user.
std::string without_user(const std::string& host);

}  // namespace lockstep::cli
