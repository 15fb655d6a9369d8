// SPDX-License-Identifier: Apache-2.0
// The diagnosis on a model of jobs: processes on hosts that do one program, links between hosts that carry
// bytes, and faults of which the truth is known. What JobWatch says of the reports is compared with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "lockstep/testing/rounds.h"
#include "lockstep/watch/job_watch.h"

namespace lockstep::watch {
namespace {

using ::testing::IsEmpty;

constexpr double kTick = 0.1;  // seconds

/// An operation of the processes of a group: in each round one sends to some and receives from some.
struct Op {
  std::vector<int> members;
  bool passes_on = false;  ///< around a ring, in a round less than it has members; else all to all, in one
  double bytes = 0;
  double computing = 0;  ///< seconds before it

  std::size_t rounds() const { return passes_on ? members.size() - 1 : 1; }
  std::vector<int> others(int process, int step) const {
    std::vector<int> all;
    const auto at = std::ranges::find(members, process) - members.begin(),
               size = static_cast<std::ptrdiff_t>(members.size());
    if (passes_on) return {members[static_cast<std::size_t>((at + step + size) % size)]};
    for (const int other : members)
      if (other != process) all.push_back(other);
    return all;
  }
  std::vector<int> receivers(int process) const { return others(process, 1); }
  std::vector<int> senders(int process) const { return others(process, -1); }
};

enum class Fault {
  kCutBothWays,  ///< what a host sends and what it is sent
  kCutOneWay,    ///< what it sends
  kBusy,         ///< a process stays in its own code
  kStopped,
  kSwaps,  ///< a process does two operations in another order
  // The diagnosis must say nothing about these.
  kCutForAMoment,
  kNone,
};
constexpr std::array kFaults = {Fault::kCutBothWays, Fault::kCutOneWay, Fault::kBusy, Fault::kStopped,
                                Fault::kSwaps};

class Model {
 public:
  Model(int seed, Fault fault) : random_(static_cast<unsigned>(seed) * 7919 + 17), fault_(fault) {
    random_.discard(20);
    hosts_ = 2 + below(2);
    const int each = 1 + below(3) + (fault == Fault::kSwaps);
    for (int p = 0; p < hosts_ * each; ++p) processes_.push_back({.host = p / each});
    rate_ = 1e6 * (1 + below(4));  // of a link, per second
    const int count = 6 + below(10);
    for (int i = 0; i < count; ++i) program_.push_back(draw_op());
    victim_ = below(size());
    partner_ = (victim_ + 1 + below(size() - 1)) % size();
    // The others wait for the victim in the end, also over the network.
    Op all{.members = {}, .passes_on = true, .bytes = 4 * rate_, .computing = 0.1};
    for (int p = 0; p < size(); ++p) all.members.push_back(p);
    program_.push_back(all);
    program_.push_back({.members = {victim_, partner_}, .bytes = 1000, .computing = 0.1});
    all.passes_on = false;
    program_.push_back(all);
    program_.push_back(all);
    for (const Op& op : program_)
      if (std::ranges::any_of(op.members, [&](int p) { return host(p) != host(op.members[0]); }))
        over_hosts_.insert(group(op));
    host_ = processes_[at(victim_)].host;
    fault_at_ = 1 + below(10);
    until_ = fault_ == Fault::kCutForAMoment ? fault_at_ + 1 + below(5) : 1e9;
    for (int from = 0; from < size(); ++from)
      for (int to = 0; to < size(); ++to)
        if (host(from) != host(to)) links_[{from, to}];
  }

  int size() const { return static_cast<int>(processes_.size()); }
  int victim() const { return victim_; }
  int partner() const { return partner_; }
  int cut_host() const { return host_; }
  bool is_over() const {
    return std::ranges::all_of(processes_, [&](const Process& each) { return each.op == program_.size(); });
  }
  int host(int process) const { return processes_[at(process)].host; }

  void tick() {
    now_ += kTick;
    for (int p = 0; p < size(); ++p) work(p);
    for (auto& [ends, link] : links_) carry(ends.first, ends.second, link);
  }

  /// The current report of the process's recorder.
  ProcessReport report(int p) const {
    const Process& process = processes_[at(p)];
    ProcessReport report{
        .process = p, .host = fmt::format("h{}", process.host), .pid = 100 + p, .came = true, .joined = true};
    report.evidence = {.state = stopped(p) ? 'T' : 'S', .call = "clock_nanosleep"};
    ThreadReport thread{.tid = 100 + p, .launches = 5};
    thread.last = {Kind::kLaunch, "step", "train.cc:3", now_ - process.since};
    if (process.op < program_.size() && process.entered) {
      const Op& op = current(p);
      Activity in{.kind = Kind::kCollective,
                  .what = fmt::format("psum {}", process.op),
                  .site = "train.cc:9",
                  .seconds = now_ - process.since};
      thread.doing.push_back(
          {.kind = Kind::kLaunch, .what = "step", .site = "train.cc:3", .seconds = in.seconds});
      if (now_ - process.since > 0.1) {
        in.group = group(op);
        in.count = process.begun.at(in.group);
        in.operation = (tag_of(p) * 1009 + static_cast<std::size_t>(&op - program_.data())) | 1;
        thread.missing = missing(p);
        thread.missing_count = static_cast<int>(thread.missing.size());
      }
      thread.doing.push_back(in);
    }
    report.threads = {thread};
    for (const auto& [digest, begun] : process.begun)
      if (over_hosts_.contains(digest)) report.groups.push_back({digest, begun});
    for (const auto& [ends, link] : links_) {
      if (ends.first != p || stopped(p)) continue;
      report.links.push_back(
          {.process = ends.second,
           .unanswered_seconds = link.waiting < 0 ? 0 : std::max(now_ - link.waiting, 0.01)});
    }
    return report;
  }

 private:
  struct Message {
    std::size_t op, round;
    double left;
  };
  struct Link {
    std::deque<Message> queue;
    double waiting = -1;
  };
  struct Process {
    int host = 0;
    std::size_t op = 0, round = 0;
    bool entered = false;
    double since = 0;  ///< the beginning of its operation, or the end of the one before
    std::map<std::uint64_t, std::uint64_t> begun = {};
    std::map<std::tuple<std::size_t, std::size_t, int>, bool> received = {};
  };

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int below(int n) { return static_cast<int>(random_() / 11 % static_cast<unsigned>(n)); }

  Op draw_op() {
    Op op;
    while (op.members.size() < 2) {
      op.members.clear();
      for (int p = 0; p < size(); ++p)
        if (below(3) != 0) op.members.push_back(p);
    }
    std::ranges::shuffle(op.members, random_);
    op.passes_on = below(2) == 0;
    op.bytes = below(3) == 0 ? rate_ * (1 + below(25)) : 1000;  // up to 25 s and more on a link
    op.computing = 0.1 * below(10);
    return op;
  }

  static std::uint64_t group(const Op& op) {
    std::uint64_t digest = 17;
    for (const int p : op.members) digest = digest * 131 + at(p) + 1;
    return digest;
  }

  bool has_fault() const { return now_ >= fault_at_ && now_ < until_; }
  bool stopped(int p) const { return fault_ == Fault::kStopped && p == victim_ && has_fault(); }
  bool cut(int from, int to) const {
    if (!has_fault()) return false;
    if (fault_ == Fault::kCutOneWay) return host(from) == host_;
    return (fault_ == Fault::kCutBothWays || fault_ == Fault::kCutForAMoment) &&
           (host(from) == host_ || host(to) == host_);
  }

  const Op& current(int p) const {
    std::size_t op = processes_[at(p)].op;
    if (fault_ == Fault::kSwaps && p == victim_) {
      const std::size_t first = program_.size() - 3;
      if (op == first || op == first + 1) op = 2 * first + 1 - op;
    }
    return program_[op];
  }

  void work(int p) {
    Process& process = processes_[at(p)];
    while (process.op < program_.size() && !stopped(p)) {
      const Op& op = current(p);
      if (std::ranges::find(op.members, p) == op.members.end()) {
        ++process.op;
        continue;
      }
      if (!process.entered) {
        if (now_ < process.since + op.computing) return;
        if (fault_ == Fault::kBusy && p == victim_ && has_fault()) return;
        process.entered = true;
        process.since = now_;
        process.round = 0;
        ++process.begun[group(op)];
        send(p, op);
      }
      if (!missing(p).empty()) return;
      if (++process.round < op.rounds()) {
        send(p, op);
        continue;
      }
      process.entered = false;
      process.since = now_;
      ++process.op;
    }
  }

  // A message is known by its group and count, as a tag is.
  std::size_t tag_of(int p) const {
    const std::uint64_t digest = group(current(p));
    return digest * 1009 + processes_[at(p)].begun.at(digest);
  }

  void send(int p, const Op& op) {
    const std::size_t tag = tag_of(p), round = processes_[at(p)].round;
    for (const int to : op.receivers(p)) {
      if (host(to) == host(p)) {
        processes_[at(to)].received[{tag, round, p}] = true;
      } else {
        links_.at({p, to}).queue.push_back({tag, round, op.bytes});
      }
    }
  }

  /// The processes that it waits for in its round: over the network one after the other, within a host all.
  std::vector<int> missing(int p) const {
    const Process& process = processes_[at(p)];
    const Op& op = current(p);
    const std::size_t tag = tag_of(p), round = process.round;
    std::vector<int> all;
    for (const int from : op.senders(p))
      if (!process.received.contains({tag, round, from})) all.push_back(from);
    // Sent data fills the kernel's memory before it leaves.
    for (const int to : op.receivers(p)) {
      if (host(to) == host(p)) continue;
      double left = 0;
      for (const Message& message : links_.at({p, to}).queue) left += message.left;
      if (left > 1e6 && std::ranges::find(all, to) == all.end()) all.push_back(to);
    }
    if (over_hosts_.contains(group(op)) && all.size() > 1) all.resize(1);
    return all;
  }

  void carry(int from, int to, Link& link) {
    if (link.queue.empty()) {
      link.waiting = -1;
      return;
    }
    if (link.waiting < 0) link.waiting = now_;
    if (cut(from, to)) return;
    link.waiting = now_;
    double some = rate_ * kTick;
    while (!link.queue.empty() && some > 0) {
      Message& first = link.queue.front();
      const double part = std::min(some, first.left);
      first.left -= part;
      some -= part;
      if (first.left > 0) break;
      processes_[at(to)].received[{first.op, first.round, from}] = true;
      link.queue.pop_front();
    }
  }

  std::minstd_rand random_;
  const Fault fault_;
  int hosts_ = 0, victim_ = 0, partner_ = 0, host_ = 0;
  double rate_ = 0, now_ = 0, fault_at_ = 0, until_ = 0;
  std::vector<Op> program_;
  std::vector<Process> processes_;
  std::map<std::pair<int, int>, Link> links_;
  std::set<std::uint64_t> over_hosts_;  // groups
};

/// The messages about stalls of 10 s and more.
struct Said {
  std::vector<std::string> lines;
  std::vector<Stall> stalls;
  std::set<int> blamed;  ///< as the cause, when the stall had lasted for 20 s
};

Said watch_model(Model& model, int seed) {
  std::minstd_rand random(static_cast<unsigned>(seed) + 3);
  JobWatch watch(model.size(), 10, 20);
  Said said;
  std::chrono::steady_clock::time_point now{std::chrono::seconds(1000)};
  std::vector<int> phase;  // the reports of one look are of different moments
  for (int p = 0; p < model.size(); ++p) phase.push_back(static_cast<int>(random() / 11 % 10));
  for (int tick = 0; tick < 30000 && !model.is_over() && !watch.failure(); ++tick) {
    model.tick();
    now += std::chrono::milliseconds(100);
    for (int p = 0; p < model.size(); ++p)
      if (tick % 10 == phase[static_cast<std::size_t>(p)]) watch.take(model.report(p));
    if (tick % 10 != 9) continue;
    for (std::string& line : watch.look(now)) {
      if (line.starts_with("went on")) continue;
      const auto stall = std::ranges::find_if(
          watch.stalls(), [&](const Stall& each) { return describe(each, watch.reports()) == line; });
      if (stall != watch.stalls().end()) said.stalls.push_back(*stall);
      said.lines.push_back(std::move(line));
    }
  }
  if (watch.failure()) said.blamed = {watch.failure()->processes.begin(), watch.failure()->processes.end()};
  return said;
}

TEST(DiagnosisOfAModel, ASlowButCorrectJob_ReportsNothing) {
  const int count = testing::rounds("LOCKSTEP_TEST_SLOW_JOBS", 40, 500);
  for (int seed = 0; seed < count; ++seed) {
    Model model(seed, seed % 4 == 0 ? Fault::kCutForAMoment : Fault::kNone);
    EXPECT_THAT(watch_model(model, seed).lines, IsEmpty()) << "seed " << seed;
    EXPECT_TRUE(model.is_over()) << "seed " << seed;
  }
}

TEST(DiagnosisOfAModel, AJobWithAFault_NamesOnlyTheFault) {
  const int count = testing::rounds("LOCKSTEP_TEST_FAULTS", 26, 250);
  for (int seed = 0; seed < count; ++seed) {
    const Fault fault = kFaults[static_cast<std::size_t>(seed) % kFaults.size()];
    Model model(seed, fault);
    const Said said = watch_model(model, seed);
    SCOPED_TRACE(fmt::format("seed {}, fault {}, process {}, host {}: {}", seed, static_cast<int>(fault),
                             model.victim(), model.cut_host(),
                             said.lines.empty() ? "nothing was said" : said.lines.front()));
    ASSERT_FALSE(said.stalls.empty());
    EXPECT_FALSE(said.blamed.empty());
    for (const Stall& stall : said.stalls) {
      std::set<int> culprits;
      for (const Culprit& culprit : stall.culprits) culprits.insert(culprit.process);
      const bool network = fault == Fault::kCutBothWays || fault == Fault::kCutOneWay;
      const bool alone = fault == Fault::kBusy || fault == Fault::kStopped;
      EXPECT_EQ(culprits, alone ? std::set{model.victim()} : std::set<int>());
      EXPECT_EQ(stall.links.empty(), !network);
      EXPECT_EQ(std::set<int>(stall.ring.begin(), stall.ring.end()).contains(model.victim()),
                fault == Fault::kSwaps);
      EXPECT_EQ(stall.ring.empty(), fault != Fault::kSwaps);
      for (const BrokenLink& link : stall.links) {
        const bool sent = model.host(link.from) == model.cut_host(),
                   came = model.host(link.to) == model.cut_host();
        EXPECT_TRUE(fault == Fault::kCutOneWay ? sent : sent != came) << link.from << " to " << link.to;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::watch
