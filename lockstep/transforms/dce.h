// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/program.h"

namespace lockstep::transforms {

/// Removes equations whose results no output needs and that have no effect, and in equations that contain
/// programs, carries and results that are not needed. The inputs are unchanged. Variables are renumbered.
Program eliminate_dead_code(Program program);

}  // namespace lockstep::transforms
