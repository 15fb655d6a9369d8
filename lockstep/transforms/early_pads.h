// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/axis_env.h"
#include "lockstep/program/program.h"

namespace lockstep::transforms {

/// A pad of what elementwise operations compute from slices becomes elementwise operations on pads of the
/// arrays that were sliced, with a selection of what the pad fills with. An update of the interior,
/// u.at({slice(1, -1)}).add(u[{slice(2, none)}] - …), is then computed at the places of u, and so is split as
/// u is, where slices of an odd number of rows are split elsewhere. A pad whose result has more than twice as
/// many elements as its operand remains as it is. Programs in equations are changed, too.
ir::Program early_pads(ir::Program program, const ir::AxisEnv& axes);

}  // namespace lockstep::transforms
