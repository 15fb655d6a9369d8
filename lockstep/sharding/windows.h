// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "lockstep/program/program.h"
#include "lockstep/program/sharding_rule.h"
#include "lockstep/sharding/reshard.h"

namespace lockstep::sharding {

/// The window of elements that each device needs of a dimension that is split evenly over the axes; `part` is
/// what it has. Elements are sent by permutes from the devices that have them, or by an all-gather if that
/// moves no more bytes. Positions outside of the dimension hold `fill`, a scalar, or any value if there is
/// none.
ir::Value window_of(Resharder& resharder, const Grid& grid, const ir::Value& part, std::size_t dimension,
                    const Axes& axes, const ir::PartWindows& windows, const std::optional<ir::Value>& fill);

}  // namespace lockstep::sharding
