// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/culprit.h"

#include <fmt/format.h>

#include <array>

namespace lockstep::watch {
namespace {

constexpr std::array kReasonNames = {"own code",  "spinning",      "blocked", "sleeping", "locked",
                                     "disk",      "stopped",       "ended",   "tracing",  "compiling",
                                     "computing", "phase",         "idle",    "input",    "checkpoint",
                                     "not come",  "waits for key", "unknown"};

std::string evidence_words(const Evidence& evidence, Reason* reason) {
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
      return is(Reason::kDisk, fmt::format("; it is blocked in the kernel, by a disk or file system{}", in));
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

std::string describe_seconds(double seconds) {
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  return fmt::format("{:.0f} s", seconds);
}

}  // namespace

std::string_view name_of(Reason reason) { return kReasonNames[static_cast<std::size_t>(reason)]; }

Culprit judge(int process, const ProcessReport* known) {
  if (known == nullptr)
    return {process, Reason::kUnknown, 0, "does not answer: it may be stopped, or its host out of reach"};
  const ProcessReport& report = *known;
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
      case Kind::kIdle:
        return is(Reason::kIdle, in.seconds, fmt::format("is idle in phase \"{}\"{} {}", in.what, at, since));
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
  if (last.kind == Kind::kNone) return is(reason, 0, "is in its own code and has launched nothing yet" + how);
  const bool says_where = last.site.empty() || last.what.find(last.site) != std::string::npos;
  return is(reason, last.seconds_ago,
            fmt::format("has been in its own code since {}{}, {} ago{}", last.what,
                        says_where ? "" : " at " + last.site, describe_seconds(last.seconds_ago), how));
}

}  // namespace lockstep::watch
