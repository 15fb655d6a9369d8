// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/program.h"

namespace lockstep::transforms {

/// Removes equations whose results no output needs and that have no effect, and in equations that contain
/// programs, carries and results that are not needed. The inputs are unchanged. Variables are renumbered.
ir::Program eliminate_dead_code(ir::Program program);

}  // namespace lockstep::transforms
