// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <sstream>

#include "lockstep/base/fail.h"

namespace lockstep::cli {
namespace {

constexpr int kMostSlots = 65536;
constexpr std::size_t kMostNamed = 10;

std::optional<int> positive(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1 || number > kMostSlots)
    return std::nullopt;
  return number;
}

// As ssh and srun would read them: a word that begins with "-" is an option to them.
bool is_host(const std::string& text) {
  const std::string name = without_user(text);
  return !name.empty() && !name.starts_with('-') && !text.starts_with('-');
}

// "host", "host:2", "[v6]", "[v6]:2"; nullopt for anything else.
std::optional<HostSlots> parse_host(std::string_view text) {
  HostSlots result;
  std::string_view rest;
  const std::size_t bracket = text.find('[');
  if (bracket != std::string_view::npos) {
    const std::size_t end = text.find(']', bracket);
    if (end == std::string_view::npos) return std::nullopt;
    result.host = std::string(text.substr(0, bracket)).append(text.substr(bracket + 1, end - bracket - 1));
    rest = text.substr(end + 1);
  } else {
    const std::size_t colon = std::min(text.find(':'), text.size());
    result.host = text.substr(0, colon);
    rest = text.substr(colon);
  }
  if (!is_host(result.host)) return std::nullopt;
  if (rest.empty()) return result;
  result.slots = rest.starts_with(':') ? positive(rest.substr(1)) : std::nullopt;
  return result.slots ? std::optional(result) : std::nullopt;
}

bool have_numbers(const std::vector<HostSlots>& hosts) {
  return std::any_of(hosts.begin(), hosts.end(), [](const HostSlots& host) { return host.slots; });
}

// Each host with all its places; one for each time that it is named without a number.
std::vector<HostSlots> each_once(const std::vector<HostSlots>& hosts) {
  std::vector<HostSlots> merged;
  for (const HostSlots& host : hosts) {
    const auto known = std::find_if(merged.begin(), merged.end(),
                                    [&](const HostSlots& one) { return one.host == host.host; });
    if (known == merged.end()) {
      merged.push_back({.host = host.host, .slots = host.slots.value_or(1)});
    } else {
      *known->slots += host.slots.value_or(1);
    }
  }
  return merged;
}

}  // namespace

std::vector<HostSlots> parse_hosts(std::string_view text) {
  std::vector<HostSlots> hosts;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const std::optional<HostSlots> host = parse_host(part);
    if (!host) fail("'{}' is not a host with a number of processes: expected HOST or HOST:N", part);
    hosts.push_back(*host);
    if (comma == std::string_view::npos) return hosts;
    text.remove_prefix(comma + 1);
  }
}

std::vector<HostSlots> parse_hostfile(std::string_view text, const std::string& source) {
  std::vector<HostSlots> hosts;
  std::istringstream in{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    std::optional<HostSlots> host = parse_host(word);
    while (host && words >> word) {
      if (word.starts_with("slots=")) {
        host->slots = positive(std::string_view(word).substr(6));
        if (!host->slots) host.reset();
      } else if (word.find('=') == std::string::npos) {
        host.reset();
      }
    }
    if (!host) fail("{}:{}: '{}' is not a host: expected HOST, HOST:N or HOST slots=N", source, number, line);
    // In a list of one line a process each comes as often as it takes processes.
    const auto known = std::find_if(hosts.begin(), hosts.end(),
                                    [&](const HostSlots& one) { return one.host == host->host; });
    if (known == hosts.end()) {
      hosts.push_back(*host);
    } else {
      known->slots = known->slots.value_or(1) + host->slots.value_or(1);
    }
  }
  if (hosts.empty()) fail("{} names no host", source);
  return hosts;
}

std::vector<Placement> place_processes(const std::vector<HostSlots>& hosts,
                                       std::optional<int> num_processes) {
  const bool any_slots = have_numbers(hosts);
  std::vector<HostSlots> merged = each_once(hosts);
  const int places = std::accumulate(merged.begin(), merged.end(), 0,
                                     [](int sum, const HostSlots& host) { return sum + *host.slots; });
  if (!any_slots && num_processes) {
    const int count = static_cast<int>(merged.size());
    for (int i = 0; i < count; ++i)
      merged[i].slots = *num_processes / count + (i < *num_processes % count ? 1 : 0);
  } else if (num_processes && *num_processes > places) {
    std::string list;
    for (const HostSlots& host : merged)
      list += fmt::format("{}{}:{}", list.empty() ? "" : ",", host.host, *host.slots);
    fail("{} processes do not fit on the hosts, which take {} ({}): give more", *num_processes, places, list);
  }
  std::vector<Placement> placements;
  int next = 0, left = num_processes.value_or(places);
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
  const int count = static_cast<int>(left.size()), even_share = (num_processes + count - 1) / count;
  std::erase_if(left, [&](const HostSlots& host) { return lost.contains(host.host); });
  int places = 0;
  for (HostSlots& host : left) {
    places += have_numbers(hosts) ? *host.slots : even_share;
    if (!have_numbers(hosts)) host.slots.reset();
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
