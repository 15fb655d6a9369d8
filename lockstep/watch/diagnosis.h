// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lockstep/watch/difference.h"
#include "lockstep/watch/report.h"
#include "lockstep/watch/stall.h"

namespace lockstep::watch {

/// Which processes wait for which at this moment. A pure function of the reports of all processes; processes
/// of the job without a report are treated as unknown. A process that waits for others is never a culprit,
/// and neither is one whose part is done: if what it has sent to another host does not arrive, the link is
/// the cause; while it arrives, however slowly, there is none.
std::vector<Stall> diagnose(std::span<const ProcessReport> reports);

/// The causes of a stall: its culprits; for a ring, the processes in it that did not launch what most did;
/// for broken links, the processes at their ends; if there is no cause, all waiting processes.
std::vector<int> causes(const Stall& stall, const std::optional<Difference>& difference);

}  // namespace lockstep::watch
