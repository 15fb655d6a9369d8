#pragma once

#include <cstdint>

#include "lockstep/program/axis_env.h"
#include "lockstep/program/program.h"
#include "lockstep/sharding/communication.h"

namespace lockstep::sharding {

/// Combines collectives of a device's program, and of those that it holds, that are alike, go over the same
/// axes and do not need each other's results: what they exchange is put one behind the other and goes in one,
/// of at most `threshold` bytes on a device. What needs their results waits until the combined one is done.
Program combine_collectives(const Program& program, const AxisEnv& axes, std::int64_t threshold,
                            CommunicationReasons& reasons);

}  // namespace lockstep::sharding
