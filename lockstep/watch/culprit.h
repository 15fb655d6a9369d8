// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

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
  kIdle,       ///< in one that may last as long as it likes
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

/// Judges a process that blocks others by its report; `report` is null if there is none.
Culprit judge(int process, const ProcessReport* report);

}  // namespace lockstep::watch
