// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/diagnosis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
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
    for (const Wait& wait : waits_) {
      waits_of_[wait.process].push_back(&wait);
      if (wait.in->operation != 0) has_come_[{wait.in->operation, wait.in->kind}].insert(wait.process);
    }
    for (Wait& wait : waits_) leave_out_who_has_come(wait);
  }

  std::vector<Stall> run() {
    std::map<Blame, std::vector<const Wait*>> by_blame;
    for (const Wait& wait : waits_) {
      if (!wait.known || wait.missing.empty()) continue;
      Blame blame;
      std::vector<Step> path = {{&wait, false}};
      std::set<const Wait*> seen = {&wait};
      follow(path, blame, seen);
      if (!blame.culprits.empty() || !blame.links.empty()) blame.ring.clear();
      if (blame.culprits.empty() && blame.ring.empty() && blame.links.empty()) continue;
      by_blame[blame].push_back(&wait);
    }
    // A host that others do not reach is one stall.
    Blame network;
    std::vector<const Wait*> by_network;
    std::erase_if(by_blame, [&](const auto& each) {
      if (!each.first.culprits.empty() || each.first.links.empty()) return false;
      network.links.insert(each.first.links.begin(), each.first.links.end());
      by_network.insert(by_network.end(), each.second.begin(), each.second.end());
      return true;
    });
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
    const auto come = has_come_.find({wait.in->operation, wait.in->kind});
    if (come == has_come_.end()) return;
    std::erase_if(wait.missing,
                  [&](int process) { return process != wait.process && come->second.contains(process); });
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
    const auto come = has_come_.find({wait.in->operation, wait.in->kind});
    if (come != has_come_.end() && come->second.contains(process)) return Place::kSameOperation;
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
      if (place != Place::kElsewhere) {
        if (add_broken_links(process, wait.process, blame)) continue;
        if (place == Place::kGoneOn) continue;
      }
      const Wait* const next = place == Place::kElsewhere ? wait_of(process) : wait_in(process, wait);
      // What it has sent outside of collectives, such as machine code, may be lost, too.
      if (place == Place::kElsewhere && next != nullptr && add_broken_links(process, wait.process, blame))
        continue;
      if (next == nullptr || !next->known || next->missing.empty()) {
        // Everything for which it waits has arrived: it is about to continue.
        if (place == Place::kElsewhere && (next == nullptr || !next->known)) blame.culprits.insert(process);
        continue;
      }
      const bool elsewhere = place == Place::kElsewhere;
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

  /// The wait of a process in the operation of another one's wait; null if it has none there.
  const Wait* wait_in(int process, const Wait& other) const {
    const auto waits = waits_of_.find(process);
    if (waits == waits_of_.end()) return nullptr;
    const auto at = std::ranges::find_if(waits->second, [&](const Wait* each) {
      return each->in->operation == other.in->operation && each->in->kind == other.in->kind;
    });
    return at == waits->second.end() ? nullptr : *at;
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
    for (const int process : blame.culprits) stall.culprits.push_back(judge(process));
    stall.declared = !stall.culprits.empty() && std::ranges::all_of(stall.culprits, [](const Culprit& each) {
      return each.reason == Reason::kPhase;
    });
    return stall;
  }

  Culprit judge(int process) const {
    const auto found = by_process_.find(process);
    if (found == by_process_.end())
      return {process, Reason::kUnknown, 0, "does not answer: it may be stopped, or its host out of reach"};
    const ProcessReport& report = *found->second;
    Culprit culprit{.process = process};
    const auto is = [&](Reason reason, double seconds, std::string words) {
      culprit.reason = reason;
      culprit.seconds = seconds;
      culprit.words = std::move(words);
      return culprit;
    };
    if (!report.ended.empty()) return is(Reason::kEnded, 0, "has ended: it " + report.ended);
    const Evidence& evidence = report.evidence;
    if (evidence.state == 'T' || evidence.state == 't') {
      return is(Reason::kStopped, 0,
                evidence.state == 't'
                    ? "is stopped by a debugger"
                    : fmt::format("is stopped by a signal (kill -CONT {} lets it go on)", report.pid));
    }
    if (evidence.state == 'Z' || evidence.state == 'X') return is(Reason::kEnded, 0, "has ended");
    const ThreadReport* const thread = report.foremost();
    if (!report.joined || thread == nullptr) {
      const std::string where =
          report.came ? "has not gone through initialize()" : "has not called initialize()";
      return is(Reason::kNotCome, 0, where + evidence_words(evidence, nullptr));
    }
    if (!thread->doing.empty()) {
      const Activity& in = thread->doing.back();
      const std::string since = fmt::format("for {}", describe_seconds(in.seconds));
      const std::string at = in.site.empty() ? "" : " (at " + in.site + ")";
      switch (in.kind) {
        case Kind::kPhase:
          return is(Reason::kPhase, in.seconds, fmt::format("is in phase \"{}\"{} {}", in.what, at, since));
        case Kind::kTrace:
          return is(Reason::kTracing, in.seconds, fmt::format("traces {}{} {}", in.what, at, since));
        case Kind::kCompile:
          return is(Reason::kCompiling, in.seconds, fmt::format("compiles {}{} {}", in.what, at, since));
        case Kind::kInput:
          return is(Reason::kInput, in.seconds, fmt::format("waits for input, {}{}, {}", in.what, at, since));
        case Kind::kSave:
        case Kind::kRestore:
          return is(Reason::kCheckpoint, in.seconds,
                    fmt::format("{} a checkpoint, {}{}, {}", in.kind == Kind::kSave ? "saves" : "restores",
                                in.what, at, since));
        case Kind::kKey:
          return is(Reason::kWaitsForKey, in.seconds,
                    fmt::format("waits for the key '{}' of the job's store{}, which nobody has set, {}",
                                in.what, at, since));
        case Kind::kShutdown:
          return is(
              Reason::kEnded, in.seconds,
              fmt::format("has left the job early: it waits for the others in shutdown(){} {}", at, since));
        case Kind::kAnswer:
          return is(Reason::kUnknown, in.seconds, fmt::format("waits for {}{} {}", in.what, at, since));
        case Kind::kLaunch:
        case Kind::kCollective:
          return is(Reason::kComputing, in.seconds, fmt::format("computes {}{} {}", in.what, at, since));
        default:
          return is(Reason::kUnknown, in.seconds,
                    fmt::format("is in {} {}{} {}", name_of(in.kind), in.what, at, since) +
                        evidence_words(evidence, &culprit.reason));
      }
    }
    const Done& last = thread->last;
    Reason reason = Reason::kOwnCode;
    const std::string how = evidence_words(evidence, &reason);
    if (last.kind == Kind::kNone)
      return is(reason, 0, "is in its own code and has launched nothing yet" + how);
    const bool says_where = last.site.empty() || last.what.find(last.site) != std::string::npos;
    return is(reason, last.seconds_ago,
              fmt::format("has been in its own code since {}{}, {} ago{}", last.what,
                          says_where ? "" : " at " + last.site, describe_seconds(last.seconds_ago), how));
  }

  static std::string evidence_words(const Evidence& evidence, Reason* reason) {
    const auto is = [&](Reason which, std::string words) {
      if (reason != nullptr) *reason = which;
      return words;
    };
    const std::string in = evidence.call.empty() ? "" : fmt::format(" ({})", evidence.call);
    switch (evidence.state) {
      case 'R':
        return is(Reason::kSpinning,
                  fmt::format("; it runs, using {:.0f}% of a core", 100 * evidence.cpu_share));
      case 'D':
        return is(Reason::kDisk,
                  fmt::format("; it is blocked in the kernel, by a disk or file system{}", in));
      case 'S':
        // A thread that is seen asleep at one moment may run at most others.
        if (evidence.cpu_share > 0.5)
          return is(Reason::kSpinning,
                    fmt::format("; it runs, using {:.0f}% of a core", 100 * evidence.cpu_share));
        if (evidence.call.find("sleep") != std::string::npos)
          return is(Reason::kSleeping, fmt::format("; it sleeps{}", in));
        if (evidence.call.find("futex") != std::string::npos)
          return is(Reason::kLocked, fmt::format("; it waits for a lock or another thread{}", in));
        return evidence.call.empty()
                   ? is(Reason::kOwnCode, "; it sleeps in the kernel")
                   : is(Reason::kBlocked, fmt::format("; it is blocked in a system call{}", in));
      default:
        return "";
    }
  }

  static std::string describe_seconds(double seconds) {
    if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
    if (seconds < 10) return fmt::format("{:.1f} s", seconds);
    return fmt::format("{:.0f} s", seconds);
  }

  std::span<const ProcessReport> reports_;
  std::map<int, const ProcessReport*> by_process_;
  std::vector<Wait> waits_;
  // Of thousands of processes nearly all wait: each wait is found by its process, and by its operation.
  std::map<int, std::vector<const Wait*>> waits_of_;
  std::map<std::pair<std::uint64_t, Kind>, std::set<int>> has_come_;
};

constexpr std::array kReasonNames = {"own code",      "spinning", "blocked", "sleeping",   "locked",
                                     "disk",          "stopped",  "ended",   "tracing",    "compiling",
                                     "computing",     "phase",    "input",   "checkpoint", "not come",
                                     "waits for key", "unknown"};

}  // namespace

std::string_view name_of(Reason reason) { return kReasonNames[static_cast<std::size_t>(reason)]; }

bool Stall::long_enough(double least_seconds) const {
  double usual = 0;
  for (const Waiters& each : waiters) usual = std::max(usual, each.usual_seconds);
  return seconds >= std::max(least_seconds, 20 * usual);
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

std::vector<Stall> diagnose(std::span<const ProcessReport> reports) { return Diagnosis(reports).run(); }

namespace {

/// "no bytes are confirmed between host a and host b for 11 s (processes 0, 2): ...". Without confirmations,
/// the sender cannot tell which of the two directions has stopped.
std::string describe_links(const std::vector<BrokenLink>& links, std::span<const ProcessReport> reports) {
  constexpr std::size_t kShown = 4;
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

std::string describe(const Stall& stall, std::span<const ProcessReport> reports) {
  constexpr std::size_t kShown = 4;
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
  std::string head =
      fmt::format("{} for {:.0f} s: {}", stall.declared ? "waiting" : "stalled", stall.seconds, who);
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
    blame += fmt::format("{}{}, which {}", shown == 1 ? "" : "; and ",
                         who_does.size() == 1 ? name(who_does.front()) : processes(who_does), words);
  }
  return fmt::format("{}; {} {}", head, stall.links.empty() ? "all for" : "and others for", blame);
}

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
