// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>

namespace lockstep::watch {
namespace {

/// A wait of one thread of a process.
struct Wait {
  int process = 0;
  const ThreadReport* thread = nullptr;
  const Activity* in = nullptr;
  std::set<int> missing;
  bool known = true;  ///< `missing` is what it waits for; else nothing is known of that.
  std::string what;   ///< What it waits in.
};

/// Whatever it was in, it does not wait for others.
bool stands_still(const ProcessReport& report) {
  return !report.ended.empty() || report.evidence.state == 'T' || report.evidence.state == 't' ||
         report.evidence.state == 'Z' || report.evidence.state == 'X';
}

bool is_foremost(const ProcessReport& report, const ThreadReport& thread) {
  return report.foremost() == &thread;
}

/// Whether, as far as is known, they have launched different programs over the same mesh.
bool launched_otherwise(const MeshReport& a, const MeshReport& b) {
  if (a.unordered || b.unordered) return false;
  const MeshReport &more = a.launches >= b.launches ? a : b, &fewer = &more == &a ? b : a;
  if (fewer.launches == 0) return false;
  if (more.launches == fewer.launches) return more.hash != fewer.hash;
  const LaunchReport* const then = launch_of(more, fewer.launches);
  return then != nullptr && then->hash != fewer.hash;
}

constexpr double kBroken = 3;  ///< Seconds; the kernel sends again what is not confirmed long before.

class Diagnosis {
 public:
  explicit Diagnosis(std::span<const ProcessReport> reports) : reports_(reports) {
    for (const ProcessReport& report : reports) by_process_[report.process] = &report;
    for (const ProcessReport& report : reports) collect_waits(report);
    for (const Wait& wait : waits_) waits_of_[wait.process].push_back(&wait);
    for (Wait& wait : waits_) leave_out_who_has_come(wait);
  }

  std::vector<Stall> run() {
    std::map<Blame, std::vector<const Wait*>> by_blame;
    Blame network;
    std::vector<const Wait*> by_network;
    for (const Wait& wait : waits_) {
      if (!wait.known || wait.missing.empty()) continue;
      Blame blame;
      std::vector<Step> path = {{&wait, false}};
      std::set<const Wait*> seen = {&wait};
      follow(path, blame, seen);
      if (blame.culprits.empty() && !blame.links.empty()) {
        // A host that others do not reach is one stall.
        network.links.merge(blame.links);
        by_network.push_back(&wait);
        continue;
      }
      if (!blame.culprits.empty()) blame.ring.clear();
      if (!blame.culprits.empty() || !blame.ring.empty()) by_blame[blame].push_back(&wait);
    }
    std::vector<Stall> stalls;
    if (!by_network.empty()) {
      stalls.push_back(make_stall(network, by_network));
      // Before, the data may have been on their way.
      stalls.back().seconds = std::ranges::max(network.links, {}, &BrokenLink::seconds).seconds;
    }
    for (const auto& [blame, waits] : by_blame) stalls.push_back(make_stall(blame, waits));
    add_devices(stalls);
    std::ranges::sort(stalls, std::ranges::greater(), &Stall::seconds);
    return stalls;
  }

 private:
  void collect_waits(const ProcessReport& report) {
    if (stands_still(report)) return;
    for (const ThreadReport& thread : report.threads) {
      if (thread.doing.empty()) continue;
      const Activity& in = thread.doing.back();
      const bool joining = in.kind == Kind::kInitialize && thread.missing_count > 0;
      if (!waits(in.kind) && !joining) continue;
      // A wait of a background thread does not block other processes.
      if (in.kind == Kind::kAnswer && !is_foremost(report, thread)) continue;
      Wait wait{.process = report.process, .thread = &thread, .in = &in, .what = in.what};
      wait.missing.insert(thread.missing.begin(), thread.missing.end());
      wait.known = thread.missing_count > 0;
      if (in.kind == Kind::kResult) wait_for_result(report, in, wait);
      if ((in.kind == Kind::kBarrier || joining) &&
          thread.missing_count > static_cast<int>(thread.missing.size())) {
        for (const ProcessReport& other : reports_)
          if (other.process != report.process) wait.missing.insert(other.process);
      }
      // A process without a recorded wait has just arrived, or works.
      if (in.kind == Kind::kCollective) wait.known = true;
      waits_.push_back(std::move(wait));
    }
  }

  // Who waits for a computation that is on its way waits for those of its mesh that have launched fewer, or
  // something else.
  void wait_for_result(const ProcessReport& report, const Activity& in, Wait& wait) {
    for (const MeshReport& mesh : report.meshes) {
      if (in.mesh != 0 && mesh.mesh != in.mesh) continue;
      const std::uint64_t number = in.mesh != 0 && in.number != 0 ? in.number : mesh.launches;
      for (const int process : processes_of(mesh.processes)) {
        const auto other = by_process_.find(process);
        if (process == report.process || other == by_process_.end()) continue;
        const auto& theirs = other->second->meshes;
        const auto same = std::ranges::find(theirs, mesh.mesh, &MeshReport::mesh);
        if (same == theirs.end() || same->launches < number || launched_otherwise(mesh, *same))
          wait.missing.insert(process);
      }
      if (in.mesh == 0 && !wait.missing.empty() && wait.what == in.what && !mesh.log.empty()) {
        const LaunchReport& last = mesh.log.back();
        wait.what = fmt::format("{}, of {}{} or a launch before it{}", in.what, last.what,
                                last.site.empty() ? "" : " at " + last.site, in.site.empty() ? "" : ",");
      }
    }
    wait.known = !wait.missing.empty();
  }

  // If all processes of a mesh have launched the same program and wait for it, it is unknown whether their
  // devices work. The first results may take long, but a launch that waits for others to arrive should not.
  void add_devices(std::vector<Stall>& stalls) const {
    std::map<std::uint64_t, std::vector<const Wait*>> by_mesh;
    std::map<std::uint64_t, std::set<int>> absent;
    for (const Wait& wait : waits_) {
      if (wait.in->kind != Kind::kResult || wait.known) continue;
      if (wait.in->mesh == 0 && wait.in->usual_seconds == 0) continue;
      for (const MeshReport& mesh : by_process_.at(wait.process)->meshes) {
        if (wait.in->mesh != 0 && mesh.mesh != wait.in->mesh) continue;
        const std::vector<int> members = processes_of(mesh.processes);
        if (by_mesh[mesh.mesh].empty()) absent[mesh.mesh].insert(members.begin(), members.end());
        by_mesh[mesh.mesh].push_back(&wait);
        absent[mesh.mesh].erase(wait.process);
      }
    }
    for (const auto& [mesh, waits] : by_mesh) {
      if (!absent[mesh].empty()) continue;
      Stall stall = make_stall({}, waits);
      for (const Wait* wait : waits) stall.seconds = std::min(stall.seconds, wait->in->seconds);
      stall.declared = true;
      stalls.push_back(std::move(stall));
    }
  }

  // The reports are of different moments: a process in the same operation has arrived. Between hosts its data
  // may still be on their way, see follow().
  void leave_out_who_has_come(Wait& wait) const {
    if (is_over_hosts(wait)) return;
    std::erase_if(wait.missing, [&](int process) {
      return process != wait.process && wait_in_same_operation(process, wait) != nullptr;
    });
  }

  static std::optional<std::uint64_t> begun(const ProcessReport& report, std::uint64_t group) {
    const auto at = std::ranges::find(report.groups, group, &GroupReport::group);
    return at == report.groups.end() ? std::nullopt : std::optional(at->begun);
  }

  bool is_over_hosts(const Wait& wait) const {
    return wait.in->group != 0 && begun(*by_process_.at(wait.process), wait.in->group).has_value();
  }

  /// What a process is to a wait for it.
  enum class Place {
    kElsewhere,      ///< it has not come
    kSameOperation,  ///< it has come
    kGoneOn,         ///< it has done its part, whatever it does now
  };

  Place place_of(int process, const Wait& wait) const {
    if (wait_in_same_operation(process, wait) != nullptr) return Place::kSameOperation;
    const auto report = by_process_.find(process);
    if (report == by_process_.end() || stands_still(*report->second) || !is_over_hosts(wait))
      return Place::kElsewhere;
    const auto count = begun(*report->second, wait.in->group);
    if (!count || *count < wait.in->count) return Place::kElsewhere;
    if (*count > wait.in->count) return Place::kGoneOn;
    // It may be at the same place with another call.
    const auto waits = waits_of_.find(process);
    const bool elsewhere =
        waits != waits_of_.end() && std::ranges::any_of(waits->second, [&](const Wait* each) {
          return each->in->group == wait.in->group && each->in->count == wait.in->count &&
                 each->in->operation != wait.in->operation;
        });
    return elsewhere ? Place::kElsewhere : Place::kGoneOn;
  }

  /// What a process knows of its connections to another one; null if nothing.
  const LinkReport* link(int of, int to) const {
    const auto report = by_process_.find(of);
    if (report == by_process_.end()) return nullptr;
    const auto at = std::ranges::find(report->second->links, to, &LinkReport::process);
    return at == report->second->links.end() ? nullptr : &*at;
  }

  /// The wait that keeps a process from the operation in which others wait for it; null if it does not wait.
  const Wait* wait_of(int process) const {
    const auto waits = waits_of_.find(process);
    if (waits == waits_of_.end()) return nullptr;
    const ProcessReport& report = *by_process_.at(process);
    const Wait* best = nullptr;
    for (const Wait* wait : waits->second) {
      const bool counts = wait->in->kind == Kind::kCollective || wait->in->kind == Kind::kConnect ||
                          is_foremost(report, *wait->thread);
      if (counts && (best == nullptr || wait->in->seconds > best->in->seconds)) best = wait;
    }
    return best;
  }

  /// The wait of a process in the operation of another one's wait; null if it has none there.
  const Wait* wait_in_same_operation(int process, const Wait& wait) const {
    const auto waits = waits_of_.find(process);
    if (wait.in->operation == 0 || waits == waits_of_.end()) return nullptr;
    const auto at = std::ranges::find_if(waits->second, [&](const Wait* each) {
      return each->in->operation == wait.in->operation && each->in->kind == wait.in->kind;
    });
    return at == waits->second.end() ? nullptr : *at;
  }

  struct Blame {
    std::set<int> culprits, ring;
    std::set<BrokenLink> links;

    friend bool operator<(const Blame& a, const Blame& b) {
      return std::tie(a.culprits, a.ring, a.links) < std::tie(b.culprits, b.ring, b.links);
    }
  };
  /// A wait on the way from the one that is looked into; `elsewhere`: the one before it waits for a process
  /// that has not come.
  struct Step {
    const Wait* wait;
    bool elsewhere;
  };

  bool add_broken_links(int a, int b, Blame& blame) const {
    bool any = false;
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      const LinkReport* const sent = link(from, to);
      if (sent == nullptr || sent->unanswered_seconds < kBroken) continue;
      blame.links.insert({from, to, sent->unanswered_seconds});
      any = true;
    }
    return any;
  }

  /// Follows the last wait of the path to what it waits for in the end.
  void follow(std::vector<Step>& path, Blame& blame, std::set<const Wait*>& seen) const {
    const Wait& wait = *path.back().wait;
    for (const int process : wait.missing) {
      const Place place = place_of(process, wait);
      const bool elsewhere = place == Place::kElsewhere;
      const Wait* const next = elsewhere ? wait_of(process) : wait_in_same_operation(process, wait);
      // Who waits elsewhere may have sent something outside of collectives, such as machine code.
      if ((!elsewhere || next != nullptr) && add_broken_links(process, wait.process, blame)) continue;
      if (place == Place::kGoneOn) continue;
      if (next == nullptr || !next->known) {
        if (elsewhere) blame.culprits.insert(process);
        continue;
      }
      if (next->missing.empty()) continue;  // it is about to continue
      const auto before =
          std::ranges::find_if(path, [&](const Step& step) { return step.wait->process == process; });
      if (before != path.end()) {
        // Those of one operation come back to each other in any case.
        if (elsewhere || std::any_of(before + 1, path.end(), [](const Step& step) { return step.elsewhere; }))
          for (auto step = before; step != path.end(); ++step) blame.ring.insert(step->wait->process);
      } else if (seen.insert(next).second) {
        path.push_back({next, elsewhere});
        follow(path, blame, seen);
        path.pop_back();
      }
    }
  }

  Stall make_stall(const Blame& blame, const std::vector<const Wait*>& waits) const {
    Stall stall;
    stall.ring.assign(blame.ring.begin(), blame.ring.end());
    stall.links.assign(blame.links.begin(), blame.links.end());
    std::map<std::string, Waiters> by_what;
    for (const Wait* wait : waits) {
      const std::string site = wait->in->site;
      Waiters& group = by_what[fmt::format("{} {} {}", name_of(wait->in->kind), wait->what, site)];
      group.kind = wait->in->kind;
      group.what = wait->what;
      group.site = site;
      group.processes.push_back(wait->process);
      group.seconds = std::max(group.seconds, wait->in->seconds);
      for (const Activity& each : wait->thread->doing)
        group.usual_seconds = std::max(group.usual_seconds, each.usual_seconds);
    }
    for (auto& [what, group] : by_what) {
      std::ranges::sort(group.processes);
      group.processes.erase(std::unique(group.processes.begin(), group.processes.end()),
                            group.processes.end());
      stall.seconds = std::max(stall.seconds, group.seconds);
      stall.waiters.push_back(std::move(group));
    }
    std::ranges::stable_sort(stall.waiters, std::ranges::greater(),
                             [](const Waiters& each) { return each.processes.size(); });
    for (const int process : blame.culprits) {
      const auto report = by_process_.find(process);
      stall.culprits.push_back(judge(process, report == by_process_.end() ? nullptr : report->second));
    }
    stall.declared = !stall.culprits.empty() && std::ranges::all_of(stall.culprits, [](const Culprit& each) {
      return each.reason == Reason::kPhase;
    });
    return stall;
  }

  std::span<const ProcessReport> reports_;
  std::map<int, const ProcessReport*> by_process_;
  std::vector<Wait> waits_;
  std::map<int, std::vector<const Wait*>> waits_of_;  // by process: of thousands, nearly all wait
};

}  // namespace

std::vector<Stall> diagnose(std::span<const ProcessReport> reports) { return Diagnosis(reports).run(); }

std::vector<int> causes(const Stall& stall, const std::optional<Difference>& difference) {
  const std::set<int> awaited = stall.awaited();
  if (stall.culprits.empty() && difference) {
    const std::vector<int>& minority = difference->sides.back().processes;
    if (std::ranges::all_of(minority, [&](int process) { return awaited.contains(process); }))
      return minority;
  }
  if (!awaited.empty()) return {awaited.begin(), awaited.end()};
  std::set<int> waiting;
  for (const Waiters& each : stall.waiters) waiting.insert(each.processes.begin(), each.processes.end());
  return {waiting.begin(), waiting.end()};
}

}  // namespace lockstep::watch
