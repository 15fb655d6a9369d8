// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/stall.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace lockstep::watch {
namespace {

constexpr double kLongCompilation = 60;
constexpr std::size_t kShown = 4;  ///< Of a kind, in a message.

/// "no bytes are confirmed between host a and host b for 11 s (processes 0, 2): ...". Without confirmations,
/// the sender cannot tell which of the two directions has stopped.
std::string describe_links(const std::vector<BrokenLink>& links, std::span<const ProcessReport> reports) {
  const auto place = [&](int process) {
    const auto report = std::ranges::find(reports, process, &ProcessReport::process);
    return report == reports.end() || report->host.empty() ? fmt::format("process {}", process)
                                                           : "host " + report->host;
  };
  struct Between {
    std::vector<int> processes;
    double seconds = 0;
  };
  std::map<std::pair<std::string, std::string>, Between> all;
  for (const BrokenLink& link : links) {
    Between& between = all[std::minmax(place(link.from), place(link.to))];
    between.processes.insert(between.processes.end(), {link.from, link.to});
    between.seconds = std::max(between.seconds, link.seconds);
  }
  std::string text;
  std::size_t shown = 0;
  for (const auto& [places, between] : all) {
    if (shown++ == kShown) {
      text += fmt::format(", nor between {} other pairs", all.size() - kShown);
      break;
    }
    text += fmt::format("{} between {} and {} for {:.0f} s (processes {})",
                        shown == 1 ? "no bytes are confirmed" : ", nor", places.first, places.second,
                        between.seconds, describe_processes(between.processes));
  }
  return text + ": the network between them has stopped";
}

}  // namespace

bool Stall::long_enough(double least_seconds) const {
  double usual = 0;
  for (const Waiters& each : waiters) usual = std::max(usual, each.usual_seconds);
  return seconds >= std::max({least_seconds, 20 * usual, ordinary ? kLongCompilation : 0.0});
}

std::set<int> Stall::awaited() const {
  std::set<int> who(ring.begin(), ring.end());
  for (const Culprit& culprit : culprits) who.insert(culprit.process);
  for (const BrokenLink& link : links) who.insert({link.from, link.to});
  return who;
}

std::string Stall::key() const {
  std::string key;
  for (const Culprit& culprit : culprits)
    key += fmt::format("{} {};", culprit.process, name_of(culprit.reason));
  for (const int process : ring) key += fmt::format("ring {};", process);
  for (const BrokenLink& link : links) key += fmt::format("from {} to {};", link.from, link.to);
  return key;
}

std::string describe(const Stall& stall, std::span<const ProcessReport> reports) {
  const auto processes = [](const std::vector<int>& all) {
    return fmt::format("{} {}", all.size() == 1 ? "process" : "processes", describe_processes(all));
  };
  int count = 0;  // a process that is not heard of counts too
  for (const ProcessReport& report : reports) count = std::max(count, report.process + 1);
  for (const Culprit& culprit : stall.culprits) count = std::max(count, culprit.process + 1);
  const auto place = [](const Waiters& each) {
    const std::string at =
        each.site.empty() || each.what.find(each.site) != std::string::npos ? "" : " at " + each.site;
    switch (each.kind) {
      case Kind::kBarrier:
        return fmt::format("at barrier '{}'{}", each.what, at);
      case Kind::kKey:
        return fmt::format("for the key '{}' of the job's store{}", each.what, at);
      case Kind::kAnswer:
        return fmt::format("for {}{}", each.what, at);
      case Kind::kConnect:
        return fmt::format("to be connected, for {}{}", each.what, at);
      case Kind::kResult:
        return fmt::format("for {}{}", each.what, at);
      case Kind::kInitialize:
        return fmt::format("in initialize(){}", at);
      default:
        return fmt::format("in {}{}", each.what, at);
    }
  };
  std::string who;
  for (std::size_t i = 0; i < std::min(stall.waiters.size(), kShown); ++i) {
    const Waiters& each = stall.waiters[i];
    who += fmt::format("{}{}{} {} {}", i == 0 ? "" : "; ", processes(each.processes),
                       i == 0 ? fmt::format(" of {}", count) : "",
                       each.processes.size() == 1 ? "waits" : "wait", place(each));
  }
  if (stall.waiters.size() > kShown)
    who += fmt::format("; and in {} other places", stall.waiters.size() - kShown);
  std::string head = fmt::format(
      "{} for {:.0f} s: {}", stall.declared || stall.ordinary ? "waiting" : "stalled", stall.seconds, who);
  if (stall.awaited().empty())
    return fmt::format("{}; all have launched the same: their devices compute, or do not reach each other",
                       head);
  if (!stall.links.empty()) head += "; " + describe_links(stall.links, reports);
  if (!stall.links.empty() && stall.culprits.empty()) return head;
  if (stall.culprits.empty())
    return fmt::format("{}; they wait for each other: processes {} run different programs", head,
                       describe_processes(stall.ring));
  const auto name = [&](int process) {
    const auto report = std::ranges::find(reports, process, &ProcessReport::process);
    return report == reports.end() ? fmt::format("process {}", process) : name_process(*report);
  };
  // Processes with the same activity are mentioned once.
  std::map<std::string, std::vector<int>> by_words;
  for (const Culprit& culprit : stall.culprits) by_words[culprit.words].push_back(culprit.process);
  std::string blame;
  std::size_t shown = 0;
  for (const auto& [words, who_does] : by_words) {
    if (shown++ == kShown) {
      blame += fmt::format("; and {} others", by_words.size() - kShown);
      break;
    }
    const bool one = who_does.size() == 1;
    blame += fmt::format("{}{}, {} {}", shown == 1 ? "" : "; and ",
                         one ? name(who_does.front()) : processes(who_does), one ? "which" : "each of which",
                         words);
  }
  return fmt::format("{}; {} {}", head, stall.links.empty() ? "all for" : "and others for", blame);
}

}  // namespace lockstep::watch
