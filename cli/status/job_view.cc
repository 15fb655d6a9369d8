// SPDX-License-Identifier: Apache-2.0
#include "cli/status/job_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep::cli {
namespace {

using watch::Activity;
using watch::Kind;
using watch::ProcessReport;
using watch::ThreadReport;

constexpr std::array<std::string_view, 14> kStateNames = {
    "not started", "starting", "waits", "transfers", "computes", "compiles", "input",
    "checkpoint",  "phase",    "idle",  "own code",  "stopped",  "ended",    "failed"};

// Where the others' wait share is at least so much above its own, a process is a straggler.
constexpr double kNoticeable = 0.1;

bool has_threads_of_its_own(Kind kind) { return kind == Kind::kLaunch || kind == Kind::kResult; }

// The thread whose innermost activity tells what the process is at. Collectives may run on a thread of XLA's.
const ThreadReport* telling_thread(const ProcessReport& report) {
  const ThreadReport* best = report.foremost();
  if (best == nullptr || best->doing.empty() || !has_threads_of_its_own(best->doing.back().kind)) return best;
  const ThreadReport* found = nullptr;
  for (const ThreadReport& thread : report.threads) {
    if (thread.doing.empty()) continue;
    const Activity& in = thread.doing.back();
    if (in.kind != Kind::kCollective && in.kind != Kind::kConnect) continue;
    const auto rank = [](const ThreadReport& of) {
      return std::pair(of.missing_count > 0, of.doing.back().seconds);
    };
    if (found == nullptr || rank(thread) > rank(*found)) found = &thread;
  }
  return found == nullptr ? best : found;
}

std::string for_whom(const ThreadReport& thread) {
  if (thread.missing_count <= 0 || thread.missing.empty()) return "";
  const int more = thread.missing_count - static_cast<int>(thread.missing.size());
  return fmt::format(" for {} {}{}", thread.missing_count == 1 ? "process" : "processes",
                     watch::describe_processes(thread.missing),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

// The kernel's evidence about a thread in the user's code, in words.
std::string detail_of(const watch::Evidence& evidence) {
  const std::string in = evidence.call.empty() ? "" : fmt::format(" ({})", evidence.call);
  if (evidence.state == 'R' || (evidence.state == 'S' && evidence.cpu_share > 0.5))
    return fmt::format("uses {:.0f}% of a core", 100 * evidence.cpu_share);
  if (evidence.state == 'D') return "blocked in the kernel, by a disk or file system" + in;
  if (evidence.state != 'S') return "";
  if (evidence.call.find("sleep") != std::string::npos) return "sleeps" + in;
  if (evidence.call.find("futex") != std::string::npos) return "waits for a lock or another thread" + in;
  return evidence.call.empty() ? "" : "blocked in a system call" + in;
}

// "psum f32[4] over i" of "psum f32[4] over i at train.cc:40 (program step(f32[4]), call 0)": the rest has a
// column of its own.
std::string short_name(std::string_view what) {
  what = what.substr(0, what.find(" (program "));
  if (const std::size_t at = what.rfind(" at "); at != what.npos && what.find(':', at) != what.npos)
    what = what.substr(0, at);
  return std::string(what);
}

void describe_activity(const Activity& in, const ThreadReport& thread, ProcessRow& row) {
  const auto is = [&](RowState state, std::string words) {
    row.state = state;
    row.words = std::move(words);
  };
  switch (in.kind) {
    case Kind::kPhase:
      return is(RowState::kPhase, fmt::format("phase \"{}\"", in.what));
    case Kind::kIdle:
      return is(RowState::kIdle, fmt::format("idle in phase \"{}\"", in.what));
    case Kind::kTrace:
      return is(RowState::kCompiles, "traces " + in.what);
    case Kind::kCompile:
      return is(RowState::kCompiles, "compiles " + in.what);
    case Kind::kLaunch:
      return is(RowState::kComputes, "computes " + in.what);
    case Kind::kCollective:
      if (in.arrived) return is(RowState::kTransfers, "in " + short_name(in.what));
      return is(RowState::kWaits, fmt::format("waits in {}{}", short_name(in.what), for_whom(thread)));
    case Kind::kConnect:
      return is(RowState::kWaits, fmt::format("waits to be connected{}", for_whom(thread)));
    case Kind::kBarrier:
      return is(RowState::kWaits, fmt::format("waits at barrier '{}'{}", in.what, for_whom(thread)));
    case Kind::kKey:
      return is(RowState::kWaits, fmt::format("waits for the key '{}'{}", in.what, for_whom(thread)));
    case Kind::kAnswer:
      return is(RowState::kWaits, fmt::format("waits for {}{}", in.what, for_whom(thread)));
    case Kind::kResult:
      return is(RowState::kComputes, "waits for " + in.what);
    case Kind::kInput:
      return is(RowState::kInput, fmt::format("waits for input, {}", in.what));
    case Kind::kSave:
      return is(RowState::kCheckpoint, "saves " + in.what);
    case Kind::kRestore:
      return is(RowState::kCheckpoint, "restores " + in.what);
    case Kind::kInitialize:
      return is(RowState::kStarting, "in initialize()" + for_whom(thread));
    case Kind::kShutdown:
      return is(RowState::kWaits, fmt::format("in shutdown(){}", for_whom(thread)));
    default:
      return is(RowState::kOwnCode, "own code");
  }
}

void describe_state(const ProcessReport& report, ProcessRow& row) {
  const auto is = [&](RowState state, std::string words, double seconds) {
    row.state = state;
    row.words = std::move(words);
    row.seconds = seconds;
  };
  // The launcher says it in better words once it knows how.
  if (!report.ended.empty()) return is(RowState::kEnded, report.ended, -1);
  switch (report.evidence.state) {
    case 'T':
      return is(RowState::kStopped, "stopped by a signal", -1);
    case 't':
      return is(RowState::kStopped, "stopped by a debugger", -1);
    case 'Z':
    case 'X':
      return is(RowState::kEnded, "has ended", -1);
    default:
      break;
  }
  const ThreadReport* const thread = telling_thread(report);
  if (!report.came) {
    row.detail = detail_of(report.evidence);
    return is(RowState::kStarting, "has not called initialize()", report.age_seconds);
  }
  if (thread == nullptr || thread->doing.empty()) {
    row.detail = detail_of(report.evidence);
    if (!report.joined) return is(RowState::kStarting, "before initialize()", report.age_seconds);
    if (thread == nullptr || thread->last.kind == Kind::kNone)
      return is(RowState::kOwnCode, "own code, has launched nothing yet", -1);
    const watch::Done& last = thread->last;
    row.site = last.site;
    return is(RowState::kOwnCode,
              "own code since " + (last.what.empty() ? std::string(name_of(last.kind)) : last.what),
              last.seconds_ago);
  }
  const Activity& in = thread->doing.back();
  describe_activity(in, *thread, row);
  row.seconds = in.seconds;
  if (row.state == RowState::kOwnCode || row.state == RowState::kPhase)
    row.detail = detail_of(report.evidence);
  // A process that waits or works inside of a phase does so as a part of it.
  for (const Activity& around : thread->doing) {
    if (is_phase(around.kind) && &around != &in) row.words += fmt::format(", in phase \"{}\"", around.what);
  }
  for (const Activity& around : thread->doing)
    if (!around.site.empty()) row.site = around.site;
  if (!row.site.empty()) return;
  // A collective on a thread of XLA's: the launch knows where.
  if (const ThreadReport* const foremost = report.foremost())
    for (const Activity& around : foremost->doing)
      if (!around.site.empty()) row.site = around.site;
}

// With what has not ended yet, so that a share is right in the midst of a long wait.
Times times_of(const ProcessReport& report) {
  Times times{report.wait_seconds, report.transfer_seconds, report.launch_seconds, report.input_seconds};
  for (const ThreadReport& thread : report.threads) {
    for (const Activity& in : thread.doing) {
      if ((in.kind == Kind::kCollective && !in.arrived) || in.kind == Kind::kConnect ||
          in.kind == Kind::kBarrier)
        times.wait += in.seconds;
      if (in.kind == Kind::kInput) times.input += in.seconds;
      if (in.kind == Kind::kLaunch) times.launch += in.seconds;
    }
  }
  return times;
}

}  // namespace

std::string_view name_of(RowState state) { return kStateNames[static_cast<std::size_t>(state)]; }

RowState row_state_of(std::string_view name) {
  const auto at = std::ranges::find(kStateNames, name);
  return at == kStateNames.end() ? RowState::kNotStarted : static_cast<RowState>(at - kStateNames.begin());
}

ProcessRow row_of(const ProcessReport& report, int devices) {
  ProcessRow row;
  row.process = report.process;
  row.host = report.host;
  row.pid = report.pid;
  row.step = report.step;
  row.launches = report.launches;
  row.collectives = report.collectives;
  describe_state(report, row);
  row.in_all = times_of(report);
  row.age_seconds = report.age_seconds;
  const double time = report.age_seconds;
  const double device_time = time * std::max(devices, 1);
  const auto part = [](double seconds, double of) {
    return of > 0 ? std::clamp(seconds / of, 0.0, 1.0) : 0.0;
  };
  row.share = {part(row.in_all.wait, device_time), part(row.in_all.transfer, device_time),
               part(row.in_all.launch, time), part(row.in_all.input, time)};
  row.recent_share = row.share;
  row.cpu_share = report.cpu_share;
  row.memory_bytes = report.memory_bytes;
  row.device_memory = report.device_memory;
  row.restarts = report.restarts;
  row.metrics = report.metrics;
  return row;
}

std::vector<Straggler> find_stragglers(std::span<const ProcessRow> rows, std::size_t most) {
  std::vector<const ProcessRow*> running;
  for (const ProcessRow& row : rows) {
    if (row.collectives > 0 && row.state != RowState::kEnded && row.state != RowState::kFailed)
      running.push_back(&row);
  }
  if (running.size() < 2) return {};
  const bool lately = std::ranges::any_of(
      running, [](const ProcessRow* row) { return row->recent_share.wait >= kNoticeable; });
  const auto wait_of = [&](const ProcessRow* row) {
    return lately ? row->recent_share.wait : row->share.wait;
  };
  std::ranges::stable_sort(running, {}, wait_of);
  std::vector<Straggler> found;
  for (std::size_t i = 0; i < running.size() && found.size() < most; ++i) {
    // The median of those that wait no less.
    const std::size_t others = running.size() - i - 1;
    if (others == 0) break;
    const double median = wait_of(running[i + 1 + others / 2]);
    if (median - wait_of(running[i]) < kNoticeable || 2 * wait_of(running[i]) > median) break;
    found.push_back({running[i]->process, wait_of(running[i]), median});
  }
  // Where most of them wait little, the few that wait much are not held up by these.
  if (found.size() * 2 > running.size()) return {};
  return found;
}

std::string describe(const watch::Stall& stall, const JobView& view) {
  std::vector<ProcessReport> who;
  for (const ProcessRow& row : view.processes) {
    ProcessReport& report = who.emplace_back();
    report.process = row.process;
    report.host = row.host;
    report.pid = row.pid;
  }
  return watch::describe(stall, who);
}

std::string describe_duration(double seconds) {
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", std::max(seconds, 0.0) * 1e3);
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const long whole = std::lround(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
  return fmt::format("{} d {} h", whole / 86400, whole / 3600 % 24);
}

}  // namespace lockstep::cli
