// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "lockstep/program/program.h"

namespace lockstep::transforms {

/// Adds the program's equations, each with its own call site, to `builder`, for these inputs, and returns its
/// outputs. Throws Error unless the number of inputs matches.
std::vector<ir::Value> inline_program(ir::Builder& builder, const ir::Program& program,
                                      std::span<const ir::Value> inputs);

}  // namespace lockstep::transforms
