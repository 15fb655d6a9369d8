// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "lockstep/program/aval.h"
#include "lockstep/program/axis_env.h"
#include "lockstep/sharding/partition_spec.h"

namespace lockstep::sharding {

/// The checks of sharding.h, for a mesh of which only the axes are known.
void check_spec(const PartitionSpec& spec, const ir::AxisEnv& axes, std::string_view what);
void check_divisible(const Aval& aval, const PartitionSpec& spec, const ir::AxisEnv& axes,
                     std::string_view what);

}  // namespace lockstep::sharding
