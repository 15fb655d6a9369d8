// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/program/program.h"

namespace lockstep::transforms {

/// Removes equations whose results no output needs and that have no effect, and in equations that contain
/// programs, carries and results that are not needed. The inputs are unchanged. Variables are renumbered.
ir::Program eliminate_dead_code(ir::Program program);

/// The program's flagged equations, as a program with these of its variables as inputs and outputs, without
/// dead code.
ir::Program part_of(const ir::Program& program, std::vector<ir::Var> inputs, std::vector<ir::Var> outputs,
                    const std::vector<bool>& equations);

}  // namespace lockstep::transforms
