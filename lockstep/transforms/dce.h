#pragma once

#include "lockstep/program/program.h"

namespace lockstep::transforms {

/// The program without the equations whose results no output needs; its inputs stay as they are. Variables
/// are numbered anew.
Program eliminate_dead_code(Program program);

}  // namespace lockstep::transforms
