// SPDX-License-Identifier: Apache-2.0
#include "cli/run/job_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/base/descriptors.h"
#include "cli/hosts/local_host.h"
#include "cli/hosts/remote_host.h"
#include "cli/hosts/this_host.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/host_name.h"
#include "lockstep/base/options.h"
#include "lockstep/base/text.h"
#include "lockstep/coordination/identity/host_port.h"

namespace lockstep::cli {
namespace {

constexpr long kMostOfAnAgent = 256;
constexpr std::chrono::milliseconds kBetweenExchanges(50);

// Children of the launcher itself: each takes its descriptors, and one to talk to the coordinator.
long most_children() {
  return (most_descriptors() - kOwnDescriptors) / (LocalHost::kDescriptorsOfAProcess + 1);
}

// How many processes one agent on this host starts, where a process may have so many descriptors.
long most_of_an_agent(long descriptors) {
  return std::clamp<long>((descriptors - kOwnDescriptors) / LocalHost::kDescriptorsOfAProcess, 1,
                          kMostOfAnAgent);
}

// The smallest limit of descriptors with which this host can start so many processes: itself, or by agents,
// for each of which the launcher needs three descriptors.
long least_descriptors(long processes) {
  const long alone = kOwnDescriptors + processes * (LocalHost::kDescriptorsOfAProcess + 1);
  for (long limit = kOwnDescriptors + LocalHost::kDescriptorsOfAProcess; limit < alone; ++limit) {
    const long each = most_of_an_agent(limit), agents = (processes + each - 1) / each;
    if (kOwnDescriptors + 3 * agents <= limit) return limit;
  }
  return alone;
}

std::string with_any_port(const std::string& host) {
  return coordination::HostPort{.host = host, .port = 0}.to_string();
}

std::chrono::milliseconds silence_of(const JobOptions& options) {
  return std::chrono::seconds(options.heartbeat_timeout.value_or(options::kHeartbeatTimeout.otherwise));
}

bool is_wildcard(const std::string& host) { return host == "0.0.0.0" || host == "::" || host == "*"; }

}  // namespace

JobHosts::JobHosts(const JobOptions& options, const Descendants& descendants, HostListener& listener)
    : options_(options), descendants_(descendants), listener_(listener), placements_(options.placements) {
  remote_ = options.by == JobOptions::By::kSlurm ||
            std::any_of(placements_.begin(), placements_.end(),
                        [](const Placement& placement) { return !is_this_host(placement.host); });
  if (!remote_) placements_ = {{.host = host_name(), .first = 0, .count = options.num_processes}};
  for (const Placement& placement : placements_) {
    host_names_.insert(host_names_.end(), placement.count, shown(without_user(placement.host)));
  }
  if (!remote_ && options.num_processes <= most_children()) {
    add({.place = placements_[0], .on_host = placements_[0].count},
        std::make_unique<LocalHost>(listener, descendants, true));
    return;
  }
  if (const long least = least_descriptors(options.num_processes); !remote_ && most_descriptors() < least)
    fail("{}", describe_too_few(options.num_processes, least));
  reach_by_agents();
}

void JobHosts::reach_by_agents() {
  const std::vector<Part> parts = parts_of(placements_);
  const bool by_rsh = options_.by == JobOptions::By::kRsh;
  // The tree's numbers of the hosts begin with those that are this one.
  std::vector<std::size_t> numbered, others;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool here = by_rsh && (!remote_ || is_this_host(parts[i].place.host));
    (here ? numbered : others).push_back(i);
  }
  const int here = static_cast<int>(numbered.size());
  numbered.insert(numbered.end(), others.begin(), others.end());
  AgentTreeOptions tree{.here = here,
                        .fan_out = options_.fan_out,
                        .silence = silence_of(options_),
                        .folder = std::filesystem::current_path(),
                        .by_slurm = !by_rsh,
                        .rsh = options_.rsh,
                        .tool = options_.remote_tool.empty() ? own_program() : options_.remote_tool};
  std::vector<int> number_of_part(parts.size());
  remotes_of_tree_.resize(parts.size());
  for (std::size_t n = 0; n < numbered.size(); ++n) {
    number_of_part[numbered[n]] = static_cast<int>(n);
    tree.hosts.push_back(parts[numbered[n]].place.host);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto remote = std::make_unique<RemoteHost>(listener_, shown(without_user(parts[i].place.host)),
                                               [this, number = number_of_part[i]](const Message& message) {
                                                 tree_->send(number, to_line_without_end(message));
                                               });
    remotes_.push_back(remote.get());
    remotes_of_tree_[number_of_part[i]] = remote.get();
    add(parts[i], std::move(remote));
  }
  tree_.emplace(std::move(tree),
                [this](int host, std::string_view line) { remotes_of_tree_[host]->heard(line); });
}

void JobHosts::add(const Part& part, std::unique_ptr<ProcessHost> host) {
  host_index_.insert(host_index_.end(), part.place.count, static_cast<int>(hosts_.size()));
  parts_.push_back(part);
  hosts_.push_back(std::move(host));
}

// Several agents share the processes that are too many for one on this host; another host has one.
std::vector<JobHosts::Part> JobHosts::parts_of(const std::vector<Placement>& placements) const {
  const long most = most_of_an_agent(most_descriptors());
  std::vector<Part> parts;
  for (const Placement& placement : placements) {
    const int step = remote_ ? placement.count : static_cast<int>(most);
    for (int done = 0; done < placement.count; done += step) {
      const Placement place{.host = placement.host,
                            .first = placement.first + done,
                            .count = std::min(step, placement.count - done)};
      parts.push_back({.place = place, .first_on_host = done, .on_host = placement.count});
    }
  }
  return parts;
}

JobHosts::~JobHosts() {
  tree_.reset();
  hosts_.clear();
  descendants_.kill_all();
}

bool JobHosts::ready() const {
  return std::all_of(remotes_.begin(), remotes_.end(),
                     [](const RemoteHost* remote) { return remote->ready(); });
}

std::vector<std::string> JobHosts::missing() const {
  std::vector<std::string> names;
  for (const RemoteHost* remote : remotes_) {
    if (!remote->ready()) names.push_back(remote->name());
  }
  return names;
}

std::string JobHosts::coordinator_bind_address() const {
  if (options_.coordinator_address) {
    const std::string& given = *options_.coordinator_address;
    const bool brackets = given.starts_with('[');
    const bool has_port = brackets ? !given.ends_with(']') : std::count(given.begin(), given.end(), ':') == 1;
    const std::string address = has_port ? given : brackets ? given + ":0" : with_any_port(given);
    if (remote_ && is_wildcard(coordination::parse_address(address).host)) {
      fail(
          "--coordinator-address {} is not an address that other hosts can use: give an address of this host",
          given);
    }
    return address;
  }
  if (options_.interface) return with_any_port(address_of_interface(*options_.interface));
  if (!remote_) return with_any_port("127.0.0.1");
  std::string loopback;
  std::string unresolved;
  for (std::size_t i = 0; i < remotes_.size(); ++i) {
    const std::string host = without_user(parts_[i].place.host);
    if (is_this_host(host)) continue;
    // The address that the host itself saw is surest, unless the way there leads over another host.
    std::string address = remotes_[i]->seen_from();
    if (address.empty() || !is_own_address(address)) address = address_towards(host);
    if (address.empty()) {
      unresolved = host;
    } else if (coordination::is_loopback({.host = address, .port = 0})) {
      loopback = address;
    } else {
      return with_any_port(address);
    }
  }
  if (!unresolved.empty()) {
    fail(
        "cannot find out at which address host {} reaches this one: give --coordinator-address or "
        "--interface",
        unresolved);
  }
  return with_any_port(loopback.empty() ? "127.0.0.1" : loopback);
}

void JobHosts::start(int attempt,
                     const std::function<std::map<std::string, std::string>(int process)>& variables) {
  HostJob job{.command = options_.command, .bind = options_.bind};
  job.silence = silence_of(options_);
  job.attempt = attempt;
  const bool logs_on_hosts = remote_ && options_.logs == JobOptions::Logs::kOnHosts;
  if (options_.log_folder && logs_on_hosts) job.log_folder = std::filesystem::absolute(*options_.log_folder);
  // Output that is not printed is still needed for the launcher's own logs and its report of a failure.
  const bool send_all = !options_.shown || options_.report_folder || (options_.log_folder && !logs_on_hosts);
  if (!remotes_.empty()) job.folder = std::filesystem::current_path();
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    const Placement& place = parts_[i].place;
    job.first_on_host = parts_[i].first_on_host;
    job.on_host = parts_[i].on_host;
    job.processes.clear();
    for (int process = place.first; process < place.first + place.count; ++process) {
      job.processes.push_back({.number = process,
                               .variables = variables(process),
                               .send_output = send_all || options_.shown->contains(process)});
    }
    hosts_[i]->start(job);
  }
  warn_where_not_all_can_join();
}

void JobHosts::warn_where_not_all_can_join() {
  const long needed = options_.num_processes + kOwnDescriptors;
  if (needed <= most_descriptors()) return;
  listener_.remark(fmt::format(
      "the coordinator needs a descriptor for each process that calls initialize(), {} with its own, "
      "and the hard limit is {}: the last would wait in vain (raise it: ulimit -Hn)",
      needed, most_descriptors()));
}

void JobHosts::add_polled(std::vector<pollfd>& polled) {
  polled_counts_.clear();
  for (const auto& host : hosts_) {
    const std::size_t before = polled.size();
    host->add_polled(polled);
    polled_counts_.push_back(polled.size() - before);
  }
  if (tree_) tree_->add_polled(polled);
}

void JobHosts::work(std::span<const pollfd> polled) {
  if (tree_) tree_->work();
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    hosts_[i]->work(polled.first(polled_counts_[i]));
    polled = polled.subspan(polled_counts_[i]);
  }
}

std::optional<Steady::time_point> JobHosts::next_work() const {
  std::optional<Steady::time_point> next = tree_ ? tree_->next_work() : std::nullopt;
  for (const auto& host : hosts_) {
    const auto own = host->next_work();
    if (own) next = next ? std::min(*next, *own) : *own;
  }
  return next;
}

void JobHosts::signal(int process, int signal, bool from_terminal) {
  hosts_[host_index_[process]]->signal(process, signal, from_terminal);
}

bool JobHosts::open() const {
  return (tree_ && tree_->open()) ||
         std::ranges::any_of(hosts_, [](const auto& host) { return host->open(); });
}

void JobHosts::hold_output(bool on) {
  for (const auto& host : hosts_) host->hold_output(on);
}

void JobHosts::ask_for_logs() {
  for (const auto& host : hosts_) host->ask_for_logs();
}

void JobHosts::begin_trace(const std::shared_ptr<watch::TickClock>& clock) {
  // So that many hosts together do not take the launcher's time.
  const std::chrono::milliseconds between =
      kBetweenExchanges * std::max<long>(1, static_cast<long>(hosts_.size()) / 16);
  for (const auto& host : hosts_) host->begin_trace(clock, between);
}

void JobHosts::take_stacks(std::chrono::milliseconds limit) {
  for (const auto& host : hosts_) host->take_stacks(limit);
}

void JobHosts::end_trace() {
  for (const auto& host : hosts_) host->end_trace();
}

bool JobHosts::tracing() const {
  return std::ranges::any_of(hosts_, [](const auto& host) { return host->tracing(); });
}

std::vector<std::pair<int, std::optional<HostClock>>> JobHosts::trace_clocks() const {
  std::vector<std::pair<int, std::optional<HostClock>>> clocks;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    std::optional<HostClock>& clock = clocks.emplace_back(parts_[i].place.first, std::nullopt).second;
    const std::vector<ClockExchange>* const exchanges = hosts_[i]->exchanges();
    if (exchanges == nullptr) {
      clock.emplace();
    } else if (!exchanges->empty()) {
      clock.emplace(*exchanges);
    }
  }
  return clocks;
}

void JobHosts::pause() {
  if (tree_) tree_->pause();
}

}  // namespace lockstep::cli
