#pragma once

#include <cstddef>
#include <optional>

#include "lockstep/program/program.h"
#include "lockstep/program/sharding_rule.h"
#include "lockstep/sharding/reshard.h"

namespace lockstep::sharding {

/// What each device needs of a dimension that is split evenly over the axes, `part` being what it has: the
/// elements of its window. Elements travel by permutes from the devices that have them, and by an all-gather
/// where that moves no more. Places outside of the dimension hold `fill`, a scalar; anything without one.
Value window_of(Resharder& resharder, const Grid& grid, const Value& part, std::size_t dimension,
                const Axes& axes, const PartWindows& windows, const std::optional<Value>& fill);

}  // namespace lockstep::sharding
