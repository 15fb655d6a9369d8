// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/axis_env.h"
#include "lockstep/program/program.h"
#include "lockstep/sharding/uneven.h"

namespace lockstep::sharding {

/// Whether the program, or a program in one of its equations, has a sharding_constraint whose axes do not
/// divide a dimension.
bool needs_padding(const ir::Program& program);

/// An equivalent program in which each value with such a constraint is padded at the end to the next size
/// that the axes divide. Values stay padded through operations whose sharding rule allows it: operations that
/// keep the dimension, and sums over it, for which the padding becomes zeros. Other operations, and the
/// program's outputs, get the value without padding, and so do values that are passed into or out of programs
/// in equations: a loop's carry is unpadded after each step. So each device computes only its part instead of
/// the whole. Results in `uneven` get the shapes given there.
ir::Program with_padding(const ir::Program& program, const ir::AxisEnv& axes,
                         const UnevenResults& uneven = {});

}  // namespace lockstep::sharding
