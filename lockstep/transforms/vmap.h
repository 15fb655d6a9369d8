// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "lockstep/program/primitive.h"

namespace lockstep::transforms {

/// The program for all examples of the axis at once. A batched input has a new first dimension of the axis's
/// size; other inputs are the same for all examples. Every output has this dimension, and is broadcast if it
/// depends on no batched input. Collectives over the axis's name, in the program and in the programs of its
/// equations, are between the examples: they become operations on the dimension. Throws TraceError for
/// unsupported ones (over groups, or over several axes unless it is a sum, maximum or minimum).
ir::Program vmap(const ir::Program& program, const std::vector<bool>& in_batched, const ir::MappedAxis& axis);

/// Adds the program's equations for all examples to `builder`. Batching rules of primitives that contain
/// programs pass the axis of their call.
ir::VmapValues inline_vmap(ir::Builder& builder, const ir::Program& program,
                           std::span<const ir::Value> inputs, const std::vector<bool>& in_batched,
                           const ir::MappedAxis& axis);

}  // namespace lockstep::transforms
