// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/watch/culprit.h"
#include "lockstep/watch/report.h"

namespace lockstep::watch {

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
  bool ordinary = false;          ///< all wait for what the culprits compile for them, as in a first step

  /// Whether a message is due: after max(10 s, 20 times the usual duration of the launch); an ordinary one
  /// after a minute at the earliest.
  bool long_enough(double least_seconds = 10) const;
  /// The processes that block the others: the culprits, those of the ring, and those at the ends of broken
  /// links, which are no causes but must be named. Empty if all processes of a mesh have launched the same
  /// program and wait for its result: then their devices compute, or cannot reach each other.
  std::set<int> awaited() const;
  /// A key that stays the same while a stall continues.
  std::string key() const;
};

/// "stalled for 12 s: processes 0, 1, 3 of 4 wait in psum f32[4] over i at train.cc:40 for process 2 (host b,
/// pid 123), which ..."
std::string describe(const Stall& stall, std::span<const ProcessReport> reports);

}  // namespace lockstep::watch
