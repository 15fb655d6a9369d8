// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/messages.h"
#include "cli/hosts/agent_link.h"
#include "cli/hosts/host_groups.h"

namespace lockstep::cli {

/// The hosts that a launcher or a relay reaches, and how.
struct AgentTreeOptions {
  int first = 0;                   ///< the number of the first of them in the job
  std::vector<std::string> hosts;  ///< as the user named them
  int here = 0;                    ///< the first so many are this host: their agents need no rsh
  std::string from;                ///< this host, if a relay runs on it; empty: the launcher's

  int fan_out = kHostFanOut;
  std::chrono::milliseconds silence{0};  ///< after which a host that has answered counts as lost; 0: never
  std::string folder;                    ///< in which relays run rsh, if they have it
  bool by_slurm = false;                 ///< by srun instead of rsh
  std::vector<std::string> rsh;
  std::string tool;  ///< the lockstep tool on other hosts
};

/// The agents of hosts: those to which this process has a connection, and those behind relays, which start
/// further agents (host_groups says who starts whom). Nothing blocks except the destructor. Used by one
/// thread.
class AgentTree {
 public:
  /// Gets, from `work`, what each host's agent says, from its hello on, and what is said about it by whoever
  /// reaches it (cli/hosts/agent_protocol.h), as lines without their end. For each host there is at most one
  /// "lost".
  using Heard = std::function<void(int host, std::string_view line)>;

  /// Starts the agents and relays that this process reaches itself. Throws Error if a command is not found.
  AgentTree(AgentTreeOptions options, Heard heard);
  ~AgentTree();  ///< ends all agents, as ~AgentLink
  AgentTree(const AgentTree&) = delete;
  AgentTree& operator=(const AgentTree&) = delete;

  /// Sends a line, without its end, to the agent of the host. Throws Error for a number of none of the hosts.
  void send(int host, std::string_view line);

  void add_polled(std::vector<pollfd>& polled) const;
  void work();
  std::optional<std::chrono::steady_clock::time_point> next_work() const;

  /// As AgentLink::hold and AgentLink::pause, for all.
  void hold(bool on);
  void pause();

  /// Whether something must still be received, or a command still runs.
  bool open() const;

  /// Sends a signal to the agents of this host themselves.
  void signal_own(int signal) const;

 private:
  struct Branch {
    HostGroup group;
    std::unique_ptr<AgentLink> link;
    bool answered = false;  ///< the relay, if it is one
    bool relay() const { return group.count > 1; }
  };

  void start(const HostGroup& group, bool here);
  void take(Branch& branch, std::string_view line);
  void take_from_relay(Branch& branch, std::string_view line);
  void pass_on(int host, std::string_view line);
  void lose_those_behind(const Branch& branch);
  Branch& branch_of(int host) { return branches_[branch_of_host_[host - options_.first]]; }
  const std::string& name(int host) const { return options_.hosts[host - options_.first]; }

  const AgentTreeOptions options_;
  const Heard heard_;
  std::vector<Branch> branches_;
  std::vector<std::size_t> branch_of_host_;
  std::vector<bool> over_;  // hosts that are done or lost
};

}  // namespace lockstep::cli
