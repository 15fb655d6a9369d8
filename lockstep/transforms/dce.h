#pragma once

#include "lockstep/program/program.h"

namespace lockstep::transforms {

/// The program without the equations whose results no output needs, and that have no effect; within equations
/// that hold programs, without the carries and results that nobody needs. Its inputs stay as they are.
/// Variables are numbered anew.
Program eliminate_dead_code(Program program);

}  // namespace lockstep::transforms
