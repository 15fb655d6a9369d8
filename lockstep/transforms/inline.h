#pragma once

#include <span>
#include <vector>

#include "lockstep/program/program.h"

namespace lockstep::transforms {

/// Adds the program's equations, each with its own call site, to `builder`, on these inputs, and gives its
/// outputs. Throws Error unless there is one input for each of the program's.
std::vector<Value> inline_program(Builder& builder, const Program& program, std::span<const Value> inputs);

}  // namespace lockstep::transforms
