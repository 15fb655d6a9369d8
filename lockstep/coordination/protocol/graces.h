// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

// When a job fails, several parties notice it: the launcher, the peers by their connections, the coordinator
// by its heartbeats. They notice it at different times and know different details. Each of these times lets a
// better report arrive before a worse one counts, so their order matters: it is asserted below.

namespace lockstep::coordination::graces {

using std::chrono::milliseconds;

/// The time between two checks of the coordinator for due events.
inline constexpr milliseconds kTick(100);

/// A tick that is this late means that the coordinator was stopped: by Ctrl-Z, a debugger, or with its
/// machine.
inline constexpr milliseconds kStoodStill(1000);

/// The time between two checks of the launcher for news of the coordinator.
inline constexpr milliseconds kLauncherLooks(200);

/// Under a launcher, a process's report that another one's connections closed waits in the coordinator for
/// the launcher's report, which has the signal or the status.
inline constexpr milliseconds kForTheLauncher(500);

/// A process whose connection to the coordinator closed is dead after this time, unless its own report, the
/// launcher's or a peer's comes before.
inline constexpr milliseconds kForBetterReports(1000);

/// A process that saw another one end waits this long for the coordinator's report before its own observation
/// counts.
inline constexpr milliseconds kForTheCoordinator(800);

/// A call that waits for data of a process that is gone waits this long for the reason.
inline constexpr milliseconds kInCollectives = 2 * kForTheCoordinator;

/// A call that the coordinator refuses because a process has failed waits for the report on that, which the
/// coordinator sends at the same time.
inline constexpr milliseconds kForTheCause(500);

/// A call that does not reach the coordinator waits for the sign that it is gone; if it died with process 0,
/// the peers' report on process 0 comes first.
inline constexpr milliseconds kForTheLoss(1500);

/// A process that is about to end, or to throw an error that ends others, waits until the coordinator has its
/// report. Only a coordinator that hangs takes so long.
inline constexpr milliseconds kForReports(2000);

/// A process that runs the coordinator and ends with an error lets it tell the others first.
inline constexpr milliseconds kLastWords(300);

/// The total time for a process that ends by an exception: its report and its last words.
inline constexpr milliseconds kTelling(3000);

/// A process that runs the coordinator of a failed job waits for the others to end, at most this long.
inline constexpr milliseconds kUntilTheOthersAreGone(2000);

static_assert(kForTheLauncher > kLauncherLooks, "the launcher has looked before the peers' word counts");
static_assert(kForBetterReports > kForTheLauncher, "all other reports come first");
static_assert(kForTheCoordinator >= kForTheLauncher + 2 * kTick,
              "the coordinator decides before its clients");
static_assert(kInCollectives > kForTheCoordinator, "a process knows the cause before its collectives end");
static_assert(kForTheLoss > kForTheCoordinator, "as do its calls of the coordinator");
static_assert(kTelling > kForReports + kLastWords, "a report is not cut off by the process's end");

}  // namespace lockstep::coordination::graces
