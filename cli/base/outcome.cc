// SPDX-License-Identifier: Apache-2.0
#include "cli/base/outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>
#include <set>
#include <utility>

namespace lockstep::cli {
namespace {

constexpr std::size_t kNamed = 8;

// Possible reasons for a signal that ended a process.
constexpr std::pair<int, const char*> kHints[] = {
    {SIGKILL, "the kernel sends this too when memory is short (see dmesg)"},
    {SIGXFSZ, "a write exceeded the limit on file sizes (ulimit -f)"},
    {SIGXCPU, "the limit on CPU time was reached (ulimit -t)"}};

// "process 3", "processes 0, 2 and 5 more".
std::string name_some(const std::vector<int>& processes) {
  std::string names = processes.size() == 1 ? "process" : "processes";
  for (std::size_t i = 0; i < processes.size() && i < kNamed; ++i) {
    names += fmt::format("{} {}", i == 0 ? "" : ",", processes[i]);
  }
  if (processes.size() > kNamed) names += fmt::format(" and {} more", processes.size() - kNamed);
  return names;
}

// "processes 0, 2 died: exit status 1; process 1 died: signal 6 (SIGABRT)".
std::string group(const std::map<std::string, std::vector<int>>& by_end) {
  std::string text;
  for (const auto& [end, processes] : by_end) {
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", name_some(processes), end);
  }
  return text;
}

}  // namespace

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

std::string Outcome::describe() const {
  if (!lost.empty()) return fmt::format("died: {}", lost);
  if (success()) return "ended with status 0";
  if (signal == 0) return fmt::format("died: exit status {}", exit_code);
  return fmt::format("died: signal {} ({})", signal, signal_name(signal));
}

std::size_t likeliest_cause(const std::vector<Outcome>& ended) {
  for (std::size_t i = 0; i < ended.size(); ++i) {
    if (!ended[i].lost.empty() || (ended[i].signal != 0 && ended[i].signal != SIGABRT)) return i;
  }
  for (std::size_t i = 0; i < ended.size(); ++i) {
    if (!ended[i].success()) return i;
  }
  return 0;
}

std::string name_by_host(const std::vector<int>& processes, const std::vector<std::string>& host_of_process) {
  std::string text;
  std::size_t hosts = 0, named = 0;
  for (std::size_t i = 0; i < processes.size() && hosts < kNamed; ++hosts) {
    std::vector<int> of_host;  // a host's processes have numbers in a row
    const std::string& host = host_of_process[processes[i]];
    while (i < processes.size() && host_of_process[processes[i]] == host) of_host.push_back(processes[i++]);
    named += of_host.size();
    text += fmt::format("{}{} on host {}", text.empty() ? "" : ", ", name_some(of_host), host);
  }
  if (named < processes.size()) text += fmt::format(" and {} more", processes.size() - named);
  return text;
}

std::string closing_report(const std::string& failure, const std::vector<int>& causes,
                           const std::vector<Fate>& fates) {
  std::map<std::string, std::vector<int>> own, followed, ended, finished;
  std::set<int> signals;  // of the causes
  for (int i = 0; i < static_cast<int>(fates.size()); ++i) {
    if (!fates[i].outcome) continue;
    const Outcome& outcome = *fates[i].outcome;
    const bool cause = std::ranges::find(causes, i) != causes.end();
    if (fates[i].sent_signal != 0 && outcome.signal == fates[i].sent_signal) {
      ended[fmt::format("by {}", signal_name(outcome.signal))].push_back(i);
    } else if (cause) {
      own[outcome.success() ? "ended with status 0" : outcome.describe()].push_back(i);
      signals.insert(outcome.signal);
    } else if (outcome.success()) {
      finished["finished"].push_back(i);
    } else {
      followed[outcome.describe()].push_back(i);
    }
  }
  std::string report = fmt::format("the job failed: {}", failure);
  // Most often the failure is just that.
  if (own.size() == 1 && failure.find(own.begin()->first) == failure.npos)
    report += fmt::format(" ({})", own.begin()->first);
  if (own.size() > 1) report += fmt::format(" ({})", group(own));
  for (const auto& [signal, hint] : kHints) {
    if (signals.contains(signal)) report += fmt::format("; {}", hint);
  }
  if (!followed.empty()) report += fmt::format("\n  as a consequence: {}", group(followed));
  if (!ended.empty()) report += fmt::format("\n  ended by the launcher: {}", group(ended));
  if (!finished.empty()) report += fmt::format("\n  without an error: {}", group(finished));
  return report;
}

}  // namespace lockstep::cli
