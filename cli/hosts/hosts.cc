// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/node_list.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kMostNamed = 10;
constexpr std::size_t kMostHosts = kMostOfALauncher;  // each runs at least one process

std::optional<int> positive(std::string_view text) {
  const auto number = cluster::whole_number(text);
  if (!number || *number < 1 || *number > kMostOfALauncher) return std::nullopt;
  return static_cast<int>(*number);
}

// As ssh and srun would read them: a word that begins with "-" is an option to them.
bool is_host(const std::string& text) {
  const std::string name = without_user(text);
  return !name.empty() && !name.starts_with('-') && !text.starts_with('-');
}

// "host", "host:2", "[v6]", "[v6]:2", "node[01-16]:2" with Slurm's ranges; none for anything else.
std::vector<HostSlots> parse_host(std::string_view text) {
  std::vector<std::string> names;
  std::string_view rest;
  const std::size_t bracket = text.find('['), end = text.find(']', std::min(bracket, text.size()));
  if (bracket != std::string_view::npos && end == std::string_view::npos) return {};
  const bool v6 = end != std::string_view::npos && text.substr(bracket, end - bracket).find(':') != text.npos;
  if (v6) {
    names = {std::string(text.substr(0, bracket)).append(text.substr(bracket + 1, end - bracket - 1))};
    rest = text.substr(end + 1);
  } else {
    const std::size_t colon = std::min(text.find(':'), text.size());
    rest = text.substr(colon);
    try {
      names = cluster::expand_node_list(std::string(text.substr(0, colon)));
    } catch (const InitializationError&) {
      return {};
    }
  }
  std::optional<int> slots;
  if (!rest.empty()) {
    slots = rest.starts_with(':') ? positive(rest.substr(1)) : std::nullopt;
    if (!slots) return {};
  }
  std::vector<HostSlots> hosts;
  for (std::string& name : names) {
    if (!is_host(name)) return {};
    hosts.push_back({std::move(name), slots});
  }
  return hosts;
}

// The length of what stands before the first comma that is not in brackets.
std::size_t first_part(std::string_view text) {
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') inside = true;
    if (text[i] == ']') inside = false;
    if (text[i] == ',' && !inside) return i;
  }
  return text.size();
}

// Reads a word NAME=VALUE of a host file into `slots`. False for words of no meaning here.
bool read_word(std::string_view word, std::optional<int>& slots) {
  const std::string_view name = word.substr(0, word.find('='));
  for (const char* number : {"slots", "cpu", "cpus", "count"}) {  // as Open MPI has them
    if (name != number || name.size() == word.size()) continue;
    slots = positive(word.substr(name.size() + 1));
    return slots.has_value();
  }
  // Open MPI's limits and MPICH's bindings and interfaces, which change no number of processes.
  for (const char* known : {"max_slots", "max-slots", "slots_max", "slots-max", "cpus_max", "cpus-max",
                            "count_max", "count-max", "binding", "ifname"})
    if (name == known && name.size() < word.size()) return true;
  return false;
}

bool have_numbers(const std::vector<HostSlots>& hosts) {
  return std::any_of(hosts.begin(), hosts.end(), [](const HostSlots& host) { return host.slots; });
}

// Hosts, each of them once: one that is added again gets more slots.
struct Merged {
  std::vector<HostSlots> hosts;

  void add(const std::string& host, std::optional<int> slots) {
    const auto [known, is_new] = at_.try_emplace(host, hosts.size());
    if (is_new) {
      hosts.push_back({host, slots});
      return;
    }
    HostSlots& one = hosts[known->second];
    const long long sum = static_cast<long long>(one.slots.value_or(1)) + slots.value_or(1);
    if (!std::in_range<int>(sum))
      fail("the host {} is given {} slots, but at most {} are possible: give it fewer slots", host, sum,
           std::numeric_limits<int>::max());
    one.slots = static_cast<int>(sum);
  }

 private:
  std::unordered_map<std::string, std::size_t> at_;
};

// Each host with all its slots; one for each time that it is named without a number.
std::vector<HostSlots> each_once(const std::vector<HostSlots>& hosts) {
  Merged merged;
  for (const HostSlots& host : hosts) merged.add(host.host, host.slots.value_or(1));
  return std::move(merged.hosts);
}

void check_count(std::size_t hosts) {
  if (hosts > kMostHosts)
    fail("more than {0} hosts are given, but a job can use at most {0}: remove some", kMostHosts);
}

}  // namespace

std::vector<HostSlots> parse_hosts(std::string_view text) {
  std::vector<HostSlots> hosts;
  while (true) {
    const std::size_t comma = first_part(text);
    const std::string_view part = text.substr(0, comma);
    const std::vector<HostSlots> more = parse_host(part);
    if (more.empty()) {
      fail("'{}' is not a host with a number of processes: expected HOST, HOST:N or NAME[01-16]:N",
           shown(part));
    }
    check_count(hosts.size() + more.size());
    hosts.insert(hosts.end(), more.begin(), more.end());
    if (comma == text.size()) return hosts;
    text.remove_prefix(comma + 1);
  }
}

std::vector<HostSlots> parse_hostfile(std::string_view text, const std::string& source) {
  Merged merged;
  std::istringstream in{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    const std::vector<HostSlots> named = parse_host(word);
    std::optional<int> slots = named.empty() ? std::nullopt : named.front().slots;
    bool read = !named.empty();
    while (read && words >> word) read = read_word(word, slots);
    if (!read) {
      fail("{}:{}: '{}' cannot be read at '{}': expected HOST, HOST:N, HOST slots=N or NAME[01-16] slots=N",
           source, number, shown(line), shown(word));
    }
    check_count(named.size());
    // In a list with one line per process, a host has as many lines as processes.
    for (const HostSlots& host : named) merged.add(host.host, slots);
    check_count(merged.hosts.size());
  }
  if (merged.hosts.empty()) fail("{} names no host", source);
  return std::move(merged.hosts);
}

std::vector<Placement> place_processes(const std::vector<HostSlots>& hosts,
                                       std::optional<int> num_processes) {
  const bool any_slots = have_numbers(hosts);
  std::vector<HostSlots> merged = each_once(hosts);
  const long long places =
      std::accumulate(merged.begin(), merged.end(), 0LL,
                      [](long long sum, const HostSlots& host) { return sum + *host.slots; });
  if (!any_slots && num_processes) {
    const int count = static_cast<int>(merged.size());
    for (int i = 0; i < count; ++i)
      merged[i].slots = *num_processes / count + (i < *num_processes % count ? 1 : 0);
  } else if (num_processes && *num_processes > places) {
    std::vector<std::string> names;
    for (const HostSlots& host : merged) names.push_back(fmt::format("{}:{}", host.host, *host.slots));
    fail("{} processes do not fit on the hosts, which take {} ({}): name more hosts or slots", *num_processes,
         places, name_some_hosts(names));
  }
  if (!std::in_range<int>(places)) fail("{} processes are too many: give the hosts fewer slots", places);
  std::vector<Placement> placements;
  int next = 0, left = num_processes.value_or(static_cast<int>(places));
  for (const HostSlots& host : merged) {
    const int count = std::min(left, *host.slots);
    if (count == 0) continue;
    placements.push_back({.host = host.host, .first = next, .count = count});
    next += count;
    left -= count;
  }
  return placements;
}

std::optional<std::vector<Placement>> place_around(const std::vector<HostSlots>& hosts, int num_processes,
                                                   const std::set<std::string>& lost) {
  std::vector<HostSlots> left = each_once(hosts);
  const long long count = static_cast<long long>(left.size()),
                  even_share = (num_processes + count - 1) / count;
  std::erase_if(left, [&](const HostSlots& host) { return lost.contains(host.host); });
  long long places = 0;
  const bool numbered = have_numbers(hosts);
  for (HostSlots& host : left) {
    places += numbered ? *host.slots : even_share;
    if (!numbered) host.slots.reset();
  }
  if (places < num_processes) return std::nullopt;
  return place_processes(left, num_processes);
}

std::set<int> parse_processes(const std::string& option, std::string_view text, int num_processes) {
  std::set<int> processes;
  if (text == "none") return processes;
  std::string_view rest = text;
  const auto take_number = [&] {
    int number = -1;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error != std::errc() || number < 0)
      fail("{} '{}' is not understood: expected all, none, or numbers of processes such as 0,8-15", option,
           text);
    if (number >= num_processes)
      fail("{} '{}' names process {}, but the job has processes 0 to {}", option, text, number,
           num_processes - 1);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return number;
  };
  while (true) {
    const int first = take_number();
    int last = first;
    if (rest.starts_with('-')) {
      rest.remove_prefix(1);
      last = take_number();
      if (last < first) fail("{} '{}' has a range that ends before it begins", option, text);
    }
    for (int process = first; process <= last; ++process) processes.insert(process);
    if (rest.empty()) return processes;
    if (!rest.starts_with(',')) rest = {};  // and so no number
    rest.remove_prefix(rest.empty() ? 0 : 1);
  }
}

std::string without_user(const std::string& host) { return host.substr(host.find('@') + 1); }

std::string name_some_hosts(const std::vector<std::string>& names) {
  const std::size_t named = std::min(names.size(), kMostNamed);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + named, ", "));
  if (named < names.size()) text += fmt::format(" and {} more", names.size() - named);
  return text;
}

}  // namespace lockstep::cli
