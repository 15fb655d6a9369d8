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
    nodes_.resize(waits_.size());
  }

  std::vector<Stall> run() {
    std::map<const Blame*, std::vector<const Wait*>> by_blame;
    Blame network;
    std::vector<const Wait*> by_network;
    for (const Wait& wait : waits_) {
      if (!wait.known || wait.missing.empty()) continue;
      const Blame& blame = blame_of(wait);
      if (blame.culprits.empty() && !blame.links.empty()) {
        // A host that others do not reach is one stall.
        network.links.insert(blame.links.begin(), blame.links.end());
        by_network.push_back(&wait);
      } else if (!blame.culprits.empty() || !blame.ring.empty()) {
        by_blame[&blame].push_back(&wait);
      }
    }
    std::vector<Stall> stalls;
    if (!by_network.empty()) {
      stalls.push_back(make_stall(network, by_network));
      // Before, the data may have been on their way.
      stalls.back().seconds = std::ranges::max(network.links, {}, &BrokenLink::seconds).seconds;
    }
    for (const Blame& blame : blames_) {
      if (const auto at = by_blame.find(&blame); at != by_blame.end())
        stalls.push_back(make_stall(blame, at->second));
    }
    // Who waits for a process that is idle by its own word is not stalled.
    std::erase_if(stalls, [](const Stall& stall) {
      return !stall.culprits.empty() && std::ranges::all_of(stall.culprits, [](const Culprit& each) {
        return each.reason == Reason::kIdle;
      });
    });
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

  // A process that waits for a computation in flight waits for those of its mesh that have launched fewer, or
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

  /// The state of a process, as seen from a wait for it.
  enum class Place {
    kElsewhere,      ///< it has not come
    kSameOperation,  ///< it has come
    kGoneOn,         ///< it has done its part, whatever it does now
  };

  Place place_of(int process, const Wait& wait) const {
    if (wait_in_same_operation(process, wait) != nullptr) return Place::kSameOperation;
    const auto report = by_process_.find(process);
    if (report == by_process_.end() || stands_still(*report->second)) return Place::kElsewhere;
    const auto waits_at = [&](auto&& fits) {
      const auto waits = waits_of_.find(process);
      return waits != waits_of_.end() && std::ranges::any_of(waits->second, [&](const Wait* each) {
               return wait.in->group != 0 && each->in->group == wait.in->group && fits(*each->in);
             });
    };
    if (!is_over_hosts(wait)) {
      // Within a host, who waits in a later operation of the group has seen all come to this one, and has
      // done its part.
      const bool later = waits_at([&](const Activity& in) { return in.count > wait.in->count; });
      return later ? Place::kGoneOn : Place::kElsewhere;
    }
    const auto count = begun(*report->second, wait.in->group);
    if (!count || *count < wait.in->count) return Place::kElsewhere;
    if (*count > wait.in->count) return Place::kGoneOn;
    // It may be at the same place with another call.
    const bool elsewhere = waits_at(
        [&](const Activity& in) { return in.count == wait.in->count && in.operation != wait.in->operation; });
    return elsewhere ? Place::kElsewhere : Place::kGoneOn;
  }

  /// A process's report about its connections to another one; null if there is none.
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

    bool empty() const { return culprits.empty() && ring.empty() && links.empty(); }
    void add(const Blame& other) {
      culprits.insert(other.culprits.begin(), other.culprits.end());
      ring.insert(other.ring.begin(), other.ring.end());
      links.insert(other.links.begin(), other.links.end());
    }
    friend bool operator<(const Blame& a, const Blame& b) {
      return std::tie(a.culprits, a.ring, a.links) < std::tie(b.culprits, b.ring, b.links);
    }
  };
  /// A wait for a process that waits itself.
  struct Edge {
    const Wait* to;
    bool elsewhere;  ///< that process has not come
  };
  /// A wait in the search for what it comes to in the end.
  struct Node {
    std::vector<Edge> edges;
    Blame own;                           ///< what blocks it by itself
    const Blame* in_the_end = nullptr;   ///< null: not known yet
    std::size_t number = 0, lowest = 0;  ///< in the order of the search, from 1
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

  /// Finds what blocks a wait by itself, and the waits of others that do.
  void look_at(const Wait& wait, Node& node) const {
    for (const int process : wait.missing) {
      const Place place = place_of(process, wait);
      const bool elsewhere = place == Place::kElsewhere;
      const Wait* const next = elsewhere ? wait_of(process) : wait_in_same_operation(process, wait);
      // A process that waits elsewhere may have sent something outside of collectives, such as machine code.
      if ((!elsewhere || next != nullptr) && add_broken_links(process, wait.process, node.own)) continue;
      if (place == Place::kGoneOn) continue;
      if (next == nullptr || !next->known) {
        if (elsewhere) node.own.culprits.insert(process);
      } else if (!next->missing.empty()) {  // else it is about to continue
        node.edges.push_back({next, elsewhere});
      }
    }
  }

  Node& node_of(const Wait& wait) { return nodes_[static_cast<std::size_t>(&wait - waits_.data())]; }

  /// The causes that a wait has in the end. Waits that wait for each other, which Tarjan's algorithm finds,
  /// have the same.
  const Blame& blame_of(const Wait& wait) {
    Node& node = node_of(wait);
    if (node.number == 0) follow(wait);
    return *node.in_the_end;
  }

  /// Tarjan's algorithm, without recursion: a ring may have as many waits as the job has processes.
  void follow(const Wait& first) {
    struct Step {
      const Wait* wait;
      std::size_t place;     ///< in open_
      std::size_t edge = 0;  ///< the next one
    };
    std::vector<Step> path;
    const auto enter = [&](const Wait& wait) {
      Node& node = node_of(wait);
      look_at(wait, node);
      node.number = node.lowest = ++numbers_;
      path.push_back({&wait, open_.size()});
      open_.push_back(&wait);
    };
    enter(first);
    while (!path.empty()) {
      Step& step = path.back();
      Node& node = node_of(*step.wait);
      if (step.edge < node.edges.size()) {
        const Wait& to = *node.edges[step.edge++].to;
        const Node& next = node_of(to);
        if (next.number == 0)
          enter(to);
        else if (next.in_the_end == nullptr)
          node.lowest = std::min(node.lowest, next.lowest);
        continue;
      }
      if (node.lowest == node.number) close(step.place);
      path.pop_back();
      if (node.in_the_end != nullptr || path.empty()) continue;
      Node& before = node_of(*path.back().wait);
      before.lowest = std::min(before.lowest, node.lowest);
    }
  }

  /// Concludes what the waits come to that are open since this place, and wait for each other.
  void close(std::size_t place) {
    const std::vector<const Wait*> together(open_.begin() + static_cast<std::ptrdiff_t>(place), open_.end());
    open_.resize(place);
    Blame blame;
    std::set<const Blame*> later;
    bool ring = false;
    for (const Wait* each : together) {
      blame.add(node_of(*each).own);
      for (const Edge& edge : node_of(*each).edges) {
        const Node& next = node_of(*edge.to);
        if (next.in_the_end != nullptr) {
          later.insert(next.in_the_end);
        } else {
          ring |= edge.elsewhere;  // those of one operation come back to each other in any case
        }
      }
    }
    if (ring)
      for (const Wait* each : together) blame.ring.insert(each->process);
    // Nearly all come to the same.
    const Blame* in_the_end = later.size() == 1 && blame.empty() ? *later.begin() : nullptr;
    if (in_the_end == nullptr) {
      for (const Blame* each : later) blame.add(*each);
      if (!blame.culprits.empty() || !blame.links.empty()) blame.ring.clear();
      in_the_end = &*blames_.insert(std::move(blame)).first;
    }
    for (const Wait* each : together) node_of(*each).in_the_end = in_the_end;
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
    stall.ordinary = !stall.culprits.empty() && std::ranges::all_of(stall.culprits, [](const Culprit& each) {
      return each.reason == Reason::kCompiling;
    }) && std::ranges::all_of(stall.waiters, [](const Waiters& each) { return each.kind == Kind::kAnswer; });
    return stall;
  }

  std::span<const ProcessReport> reports_;
  std::map<int, const ProcessReport*> by_process_;
  std::vector<Wait> waits_;
  std::map<int, std::vector<const Wait*>> waits_of_;  // by process: of thousands, nearly all wait
  std::vector<Node> nodes_;                           // of the waits, in their order
  std::vector<const Wait*> open_;  // the waits that the search has reached, and does not know the blame of
  std::size_t numbers_ = 0;
  std::set<Blame> blames_;
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
