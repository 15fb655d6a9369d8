// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/program/axis_env.h"
#include "lockstep/program/program.h"

namespace lockstep::transforms {

/// For XLA's CPU compiler: a concatenation of a large array and at most two small ones, such as rows of
/// neighbours, becomes a selection between pads, if only elementwise operations read it. XLA's code for a
/// concatenation branches at every element; that for pads and selections is vectorised. Results of fewer
/// than `least_elements` remain as they are. Programs in equations are changed, too.
ir::Program select_edges(ir::Program program, const ir::AxisEnv& axes, std::int64_t least_elements = 1 << 14);

}  // namespace lockstep::transforms
