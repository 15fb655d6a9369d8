// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/program/primitive.h"

namespace lockstep::transforms {

/// Whether the equation is a collective over the axis; always false for an axis without a name.
bool names_axis(const ir::Equation& equation, const std::string& axis);

/// Whether a program in the equation has such a collective, also in a user-defined derivative.
bool holds_collective(const ir::Equation& equation, const std::string& axis);

/// A collective over the axis of vmap, as an operation on the examples, which are the first dimension of
/// batched operands: its result, and whether that has them as its first dimension.
std::pair<ir::Value, bool> collective_over_examples(const ir::Equation& equation,
                                                    std::span<const ir::Value> operands,
                                                    std::span<const bool> batched, const ir::MappedAxis& axis,
                                                    ir::Builder& builder);

}  // namespace lockstep::transforms
