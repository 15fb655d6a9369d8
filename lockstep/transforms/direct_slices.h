// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/program.h"

namespace lockstep::transforms {

/// Slices of a pad or of a concatenation become pads and concatenations of slices, if only slices use it, and
/// only elementwise operations use these; also slices of a sum of such pads, as in the gradient of slices.
/// u + p[2:, 1:-1] with p = pad(u, 1) becomes u + pad(u, low = (-1, 0), high = (1, 0)), whose result has u's
/// shape: it is computed where it is read instead of being written to memory, and is split as u is. Programs
/// in equations are changed, too. The inputs and outputs are unchanged.
ir::Program direct_slices(ir::Program program);

}  // namespace lockstep::transforms
