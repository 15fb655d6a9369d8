// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/primitive.h"

namespace lockstep::ir {

/// An elementwise primitive whose name is one of SLEEF's functions (lockstep/sleef/sleef.h), which computes
/// it on CPUs where that is faster than XLA's code (benchmarks/functions_on_cpus.cc), from 256 elements on.
Primitive by_sleef(Primitive primitive);

}  // namespace lockstep::ir
