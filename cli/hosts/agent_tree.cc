// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts/agent_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "cli/hosts/agent_protocol.h"
#include "cli/hosts/hosts.h"
#include "cli/hosts/remote_command.h"
#include "cli/hosts/this_host.h"
#include "lockstep/base/fail.h"

namespace lockstep::cli {
namespace {

constexpr char kRelay[] = "host-relay", kAgent[] = "host-agent";

}  // namespace

AgentTree::AgentTree(AgentTreeOptions options, Heard heard)
    : options_(std::move(options)), heard_(std::move(heard)) {
  const int count = static_cast<int>(options_.hosts.size());
  std::vector<HostGroup> groups;
  for (int i = 0; i < options_.here; ++i) groups.push_back({.first = options_.first + i, .count = 1});
  std::ranges::copy(host_groups(options_.first + options_.here, count - options_.here, options_.fan_out),
                    std::back_inserter(groups));
  over_.resize(count);
  branch_of_host_.resize(count);
  branches_.reserve(groups.size());  // links refer to their branches
  for (const HostGroup& group : groups) start(group, group.first < options_.first + options_.here);
}

AgentTree::~AgentTree() {
  for (const Branch& branch : branches_) branch.link->hang_up();
}

void AgentTree::start(const HostGroup& group, bool here) {
  Branch& branch = branches_.emplace_back(Branch{.group = group, .link = nullptr});
  for (int i = 0; i < group.count; ++i)
    branch_of_host_[group.first - options_.first + i] = branches_.size() - 1;
  const std::string& host = name(group.first);
  const std::string role = branch.relay() ? kRelay : kAgent;
  AgentLink::Options link{.host = without_user(host),
                          .from = without_user(options_.from),
                          .command = {own_program(), role},
                          .silence = options_.silence};
  if (!here) {
    link.command = options_.by_slurm ? srun_command(host, options_.tool, role)
                                     : rsh_command(options_.rsh, host, options_.tool, role);
  }
  branch.link = std::make_unique<AgentLink>(std::move(link),
                                            [this, &branch](std::string_view line) { take(branch, line); });
}

void AgentTree::send(int host, std::string_view line) {
  const int first = options_.first, end = first + static_cast<int>(options_.hosts.size());
  if (host < first || host >= end)
    fail("got a message for host {}, but this process reaches only hosts {} to {}", host, first, end - 1);
  const Branch& branch = branch_of(host);
  branch.link->send(branch.relay() ? fmt::format("{}{}\t", kToHost, host) : "", line);
}

void AgentTree::take(Branch& branch, std::string_view line) {
  if (branch.relay()) return take_from_relay(branch, line);
  pass_on(branch.group.first, line);
}

void AgentTree::take_from_relay(Branch& branch, std::string_view line) {
  const HostGroup& group = branch.group;
  if (line.starts_with(std::string(kAgentHello) + "\t")) {
    branch.answered = true;
    AgentTreeOptions below = options_;
    below.first = group.first;
    const auto begin = options_.hosts.begin() + (group.first - options_.first);
    below.hosts.assign(begin, begin + group.count);
    for (const Message& message : to_messages(below)) branch.link->send(to_line_without_end(message), "");
    return;
  }
  if (const auto addressed = addressed_line(line, kOfHost);
      addressed && addressed->host >= group.first && addressed->host < group.first + group.count) {
    return pass_on(addressed->host, addressed->line);
  }
  if (line == "done") return lose_those_behind(branch);  // there are none, unless the relay is wrong
  pass_on(group.first, line);
  if (line.starts_with("lost\t")) lose_those_behind(branch);
}

void AgentTree::pass_on(int host, std::string_view line) {
  const std::size_t i = host - options_.first;
  // Its relay may be lost later than the host itself is done.
  if (over_[i] && !line.starts_with("remark\t")) return;
  over_[i] = over_[i] || line == "done" || line.starts_with("lost\t");
  heard_(host, line);
}

// Behind a relay that is lost.
void AgentTree::lose_those_behind(const Branch& branch) {
  const std::string relay = without_user(name(branch.group.first));
  std::vector<int> lost;
  std::vector<std::string> names;
  for (int host = branch.group.first; host < branch.group.first + branch.group.count; ++host) {
    if (over_[host - options_.first]) continue;
    lost.push_back(host);
    names.push_back(without_user(name(host)));
  }
  if (lost.empty()) return;
  if (branch.answered) {
    pass_on(branch.group.first,
            to_line_without_end({"remark", "it is lost, and so are the hosts that were reached through it: " +
                                               name_some_hosts(names)}));
  }
  const std::string why = to_line_without_end(
      {"lost", fmt::format("the connection through host {} was lost", relay), "with-another"});
  for (const int host : lost) pass_on(host, why);
}

void AgentTree::add_polled(std::vector<pollfd>& polled) const {
  for (const Branch& branch : branches_) branch.link->add_polled(polled);
}

void AgentTree::work() {
  for (const Branch& branch : branches_) branch.link->work();
}

std::optional<std::chrono::steady_clock::time_point> AgentTree::next_work() const {
  std::optional<std::chrono::steady_clock::time_point> next;
  for (const Branch& branch : branches_) {
    if (branch.link->open())
      next = std::min(next.value_or(branch.link->next_work()), branch.link->next_work());
  }
  return next;
}

void AgentTree::hold(bool on) {
  for (const Branch& branch : branches_) branch.link->hold(on);
}

void AgentTree::pause() {
  for (const Branch& branch : branches_) branch.link->pause();
}

bool AgentTree::open() const {
  return std::ranges::any_of(branches_, [](const Branch& branch) { return branch.link->open(); });
}

void AgentTree::signal_own(int signal) const {
  for (int i = 0; i < options_.here; ++i) branches_[i].link->signal(signal);
}

}  // namespace lockstep::cli
