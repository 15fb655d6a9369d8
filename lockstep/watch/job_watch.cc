// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/job_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

namespace lockstep::watch {
namespace {

using std::chrono::seconds;

constexpr seconds kLongestInterval(3600);
constexpr std::chrono::milliseconds kGone(1500);    // a stall that was not seen for so long is over
constexpr std::chrono::milliseconds kUnseen(1500);  // it may have begun so long before it is first seen
constexpr double kMoment = 0.1;                     // seconds
constexpr seconds kForProcesses(3);                 // in which processes that differ find it themselves

/// Whether it was observed between two activities, each of which may take the time: the next look shows it.
bool is_between_two_things(const Stall& stall) {
  return std::ranges::any_of(stall.culprits, [](const Culprit& culprit) {
    return (culprit.reason == Reason::kOwnCode || culprit.reason == Reason::kSpinning) &&
           culprit.seconds > 0 && culprit.seconds < kMoment;
  });
}

}  // namespace

JobWatch::JobWatch(int num_processes, double stall_warning, std::optional<int> stall_timeout)
    : num_processes_(num_processes), stall_warning_(stall_warning), stall_timeout_(stall_timeout) {}

void JobWatch::take(ProcessReport report) {
  taken_by_[report.process] = ++taken_;
  const auto at = std::ranges::lower_bound(reports_, report.process, {}, &ProcessReport::process);
  if (at == reports_.end() || at->process != report.process) {
    reports_.insert(at, std::move(report));
    return;
  }
  // Received logs are kept until the next ones arrive, while they are useful.
  if (needs_logs_ && at->pid == report.pid) {
    for (MeshReport& mesh : report.meshes) {
      const auto known = std::ranges::find(at->meshes, mesh.mesh, &MeshReport::mesh);
      if (known != at->meshes.end() && mesh.log.empty()) mesh.log = std::move(known->log);
    }
  }
  *at = std::move(report);
}

std::string JobWatch::difference() const {
  if (!difference_.empty()) return difference_;
  const auto found = find_difference(reports_);
  return found ? describe(*found, num_processes_) : "";
}

bool JobWatch::says_who_has_not_come() const {
  return std::ranges::any_of(followed_, [](const auto& each) {
    return each.second.said > 0 &&
           std::ranges::any_of(each.second.stall.culprits,
                               [](const Culprit& culprit) { return culprit.reason == Reason::kNotCome; });
  });
}

bool JobWatch::logs_are_behind() const {
  return std::ranges::any_of(reports_, [](const ProcessReport& report) {
    return report.ended.empty() && std::ranges::any_of(report.meshes, [](const MeshReport& mesh) {
             return mesh.launches > (mesh.log.empty() ? 0 : mesh.log.back().number);
           });
  });
}

/// Whether one of those that wait has reported since the last look that saw the stall.
bool JobWatch::has_news(const Followed& followed) const {
  return std::ranges::any_of(followed.stall.waiters, [&](const Waiters& waiters) {
    return std::ranges::any_of(waiters.processes, [&](int process) {
      const auto at = taken_by_.find(process);
      return at != taken_by_.end() && at->second > followed.taken;
    });
  });
}

void JobWatch::look_for_a_difference(std::vector<std::string>& lines,
                                     std::chrono::steady_clock::time_point now) {
  // If a process makes no progress, its log shows which launch differs, and whether devices wait for each
  // other.
  needs_logs_ =
      (difference_.empty() && hashes_differ(reports_)) ||
      std::ranges::any_of(stalls_, [&](const Stall& stall) { return stall.seconds > stall_warning_ / 2; });
  if (needs_logs_ && difference_.empty()) {
    if ((found_ = find_difference(reports_))) {
      found_at_ = now;
      difference_ = describe(*found_, num_processes_);
      lines.push_back("the processes run different programs: " + difference_);
    }
  }
  if (found_ && found_->unchecked && !failure_ && now >= found_at_ + kForProcesses)
    failure_ = Failure{found_->sides.back().processes, difference_, /*diverged=*/true};
  wants_logs_ = needs_logs_ && logs_are_behind();
}

std::string JobWatch::describe_end(const Followed& followed,
                                   std::chrono::steady_clock::time_point now) const {
  const std::set<int> awaited = followed.stall.awaited();
  const double lasted = std::chrono::duration<double>(now - followed.first).count();
  std::string what = followed.stall.waiters.empty() ? "" : followed.stall.waiters.front().what;
  if (awaited.empty()) return fmt::format("went on after {:.0f} s: the devices gave {}", lasted, what);
  if (!followed.stall.links.empty() && followed.stall.culprits.empty())
    return fmt::format("went on after {:.0f} s: the network carried the data of {}", lasted, what);
  return fmt::format("went on after {:.0f} s: {} {} came to {}", lasted,
                     awaited.size() == 1 ? "process" : "processes",
                     describe_processes({awaited.begin(), awaited.end()}), what);
}

std::vector<std::string> JobWatch::finish(std::chrono::steady_clock::time_point now) {
  std::vector<std::string> lines;
  for (const auto& [who, followed] : followed_)
    if (followed.said > 0) lines.push_back(describe_end(followed, now));
  followed_.clear();
  if (const std::string found = difference(); !found.empty() && difference_.empty())
    lines.push_back("the processes ran different programs: " + found);
  return lines;
}

std::vector<std::string> JobWatch::look(std::chrono::steady_clock::time_point now) {
  std::vector<std::string> lines;
  stalls_ = diagnose(reports_);
  std::set<std::set<int>> present;
  for (const Stall& stall : stalls_) {
    const std::set<int> who = stall.awaited();
    if (!present.insert(who).second) continue;  // the longest counts
    auto [at, fresh] = followed_.try_emplace(who);
    Followed& followed = at->second;
    const auto began = now - std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                 std::chrono::duration<double>(stall.seconds));
    // Another stall by the same processes.
    if (!fresh && began > followed.first + seconds(1)) {
      if (followed.said > 0) lines.push_back(describe_end(followed, began));
      fresh = true;
    }
    // Before a culprit is first seen, the others may have waited for another process.
    if (fresh)
      followed = {.first = stall.culprits.empty() ? began : std::max(began, now - kUnseen), .next = now};
    const bool seen_before = followed.seen != std::chrono::steady_clock::time_point();
    followed.seen = now;
    followed.stall = stall;
    // Reports of one look may be of different moments: a stall counts if the next look confirms it, by a new
    // report of one that waits. Those who wait for a process that has ended may have ended, too.
    const bool confirmed = seen_before && has_news(followed);
    followed.taken = taken_;
    if (!confirmed) continue;
    const double lasted = std::chrono::duration<double>(now - followed.first).count();
    if (stall.long_enough(stall_warning_) && lasted >= stall_warning_ && now >= followed.next) {
      if (!followed.put_off && is_between_two_things(stall)) {
        followed.put_off = true;
        continue;
      }
      followed.put_off = false;
      followed.line = describe(stall, reports_);
      lines.push_back(followed.line);
      ++followed.said;
      followed.next = now + std::clamp(std::chrono::duration_cast<seconds>(now - followed.first), seconds(10),
                                       kLongestInterval);
    }
    if (stall_timeout_ && !failure_ && std::min(stall.seconds, lasted) >= *stall_timeout_) {
      failure_ = Failure{causes(stall, found_), fmt::format("{} (longer than --stall-timeout {} s)",
                                                            describe(stall, reports_), *stall_timeout_)};
    }
  }
  for (auto at = followed_.begin(); at != followed_.end();) {
    if (present.contains(at->first) || now < at->second.seen + kGone) {
      ++at;
      continue;
    }
    if (at->second.said > 0) lines.push_back(describe_end(at->second, at->second.seen));
    at = followed_.erase(at);
  }
  look_for_a_difference(lines, now);
  return lines;
}

}  // namespace lockstep::watch
