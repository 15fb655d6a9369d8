// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/watch/report.h"

namespace lockstep::watch {

/// Why other processes wait for a process.
enum class Reason {
  kOwnCode,   ///< in the user's code, with unknown activity
  kSpinning,  ///< in the user's code, using a core
  kBlocked,   ///< in the user's code, in a system call
  kSleeping,  ///< in the user's code, in a system call that only waits for time to pass
  kLocked,    ///< in the user's code, waiting for a lock
  kDisk,      ///< in the kernel, not interruptible
  kStopped,   ///< by a signal or a debugger
  kEnded,
  kTracing,
  kCompiling,
  kComputing,  ///< in a launch, between its collectives
  kPhase,      ///< in a phase named by the user
  kInput,
  kCheckpoint,
  kNotCome,      ///< it has not called initialize()
  kWaitsForKey,  ///< for a key that no process has set
  kUnknown,
};
std::string_view name_of(Reason reason);

/// A process that blocks others, and the reason.
struct Culprit {
  int process = 0;
  Reason reason = Reason::kUnknown;
  double seconds = 0;  ///< since this began
  std::string words;   ///< "is in its own code since train.cc:38, and sleeps (nanosleep)"
};

/// Two processes on different hosts: the host of `to` confirms none of the bytes that `from` has sent there,
/// so that `to` waits for `from`, which has done its part.
struct BrokenLink {
  int from = 0, to = 0;
  double seconds = 0;  ///< since this began

  friend auto operator<=>(const BrokenLink& a, const BrokenLink& b) {
    return std::pair(a.from, a.to) <=> std::pair(b.from, b.to);
  }
};

/// Processes that wait in the same operation.
struct Waiters {
  Kind kind = Kind::kNone;
  std::vector<int> processes;
  std::string what, site;
  double seconds = 0;  ///< the longest wait among them
  double usual_seconds = 0;
};

/// Processes that wait for others.
struct Stall {
  std::vector<Waiters> waiters;   ///< those with the most processes first
  std::vector<Culprit> culprits;  ///< by process; empty if all wait for each other, or for devices
  std::vector<int> ring;  ///< the processes that wait for each other, if no other process is the cause
  std::vector<BrokenLink> links;  ///< what stops the others, if it is the network
  double seconds = 0;             ///< the longest wait
  bool declared = false;          ///< all culprits are in phases named by the user, or there are none

  /// Whether a message is due: after max(10 s, 20 times the usual duration of the launch).
  bool long_enough(double least_seconds = 10) const;
  /// The processes that block the others: the culprits, those of the ring, and those at the ends of broken
  /// links, which are no causes but must be named. Empty if all processes of a mesh have launched the same
  /// program and wait for its result: then their devices compute, or cannot reach each other.
  std::set<int> awaited() const;
  /// A key that stays the same while a stall continues.
  std::string key() const;
};

/// Which processes wait for which at this moment. A pure function of the reports of all processes; processes
/// of the job without a report are treated as unknown. A process that waits for others is never a culprit,
/// and neither is one whose part is done: if what it has sent to another host does not arrive, the link is
/// the cause; while it arrives, however slowly, there is none.
std::vector<Stall> diagnose(std::span<const ProcessReport> reports);

/// "stalled for 12 s: processes 0, 1, 3 of 4 wait in psum f32[4] over i at train.cc:40 for process 2 (host b,
/// pid 123), which ..."
std::string describe(const Stall& stall, std::span<const ProcessReport> reports);

/// A mesh over which processes that must launch the same programs have not done so.
struct Difference {
  std::uint64_t mesh = 0, number = 0;  ///< the earliest launch that differs
  struct Side {
    std::vector<int> processes;
    std::string what, site, text;  ///< empty: they have launched nothing else
  };
  std::vector<Side> sides;    ///< the one with the most processes first
  bool earlier_lost = false;  ///< earlier launches are no longer known: there may be an earlier difference
};

/// Whether the processes' hashes at the last common launch differ: cheap, without the logs. Meshes over which
/// several threads launch are ignored.
bool hashes_differ(std::span<const ProcessReport> reports);

/// The earliest launch that differs, from reports with logs.
std::optional<Difference> find_difference(std::span<const ProcessReport> reports);

std::string describe(const Difference& difference, int process_count);

/// The causes of a stall: its culprits; for a ring, the processes in it that did not launch what most did;
/// for broken links, the processes at their ends; if there is no cause, all waiting processes.
std::vector<int> causes(const Stall& stall, const std::optional<Difference>& difference);

}  // namespace lockstep::watch
