// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/program/axis_env.h"
#include "lockstep/program/program.h"
#include "lockstep/sharding/communication_line.h"

namespace lockstep::sharding {

/// The collectives of a program and of the programs in its equations, in order; for branches, those of all
/// branches. Collectives over a single device do nothing and are left out.
std::vector<CommunicationLine> communication(const ir::Program& partitioned, const ir::AxisEnv& axes);

/// The program's text. Each collective is followed by "  # " and its line; the last line has the totals:
///   # 2 collectives, 1.2 MiB on each device
std::string describe(const ir::Program& partitioned, const ir::AxisEnv& axes);

}  // namespace lockstep::sharding
