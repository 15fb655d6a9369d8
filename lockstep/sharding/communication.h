#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/program/axis_env.h"
#include "lockstep/program/program.h"
#include "lockstep/sharding/communication_line.h"

namespace lockstep::sharding {

/// Why there is a collective, by the program that holds it (null: the outermost), and its equation's place
/// there.
using CommunicationReasons = std::map<std::pair<const Program*, std::size_t>, std::string>;

/// The collectives of a program and of those it holds, in order; of branches, all. Those over a single device
/// do nothing and are left out.
std::vector<CommunicationLine> communication(const Program& partitioned, const AxisEnv& axes,
                                             const CommunicationReasons& reasons = {});

/// The program's text, behind each collective "  # " and its line, and at the end a line of totals:
///   # 2 collectives, 1.2 MiB on each device
std::string describe(const Program& partitioned, const AxisEnv& axes);

}  // namespace lockstep::sharding
