#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/program/primitive.h"

namespace lockstep::transforms {

/// Whether the equation is a collective over the axis; never over an axis without a name.
bool names_axis(const Equation& equation, const std::string& axis);

/// Whether the equation holds a program with such a collective; in a rule of the user's for its derivative,
/// too.
bool holds_collective(const Equation& equation, const std::string& axis);

/// A collective over the axis that vmap maps, as an operation on the examples, which stand in front of
/// operands that are batched: its result, and whether that has them in front.
std::pair<Value, bool> collective_over_examples(const Equation& equation, std::span<const Value> operands,
                                                std::span<const bool> batched, const MappedAxis& axis,
                                                Builder& builder);

}  // namespace lockstep::transforms
