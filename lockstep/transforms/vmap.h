#pragma once

#include <span>
#include <vector>

#include "lockstep/program/primitive.h"

namespace lockstep::transforms {

/// The program for all examples of the axis at once: an input that is batched has, in front, a dimension of
/// that size, over which it is mapped; the others serve all examples. Every output has the dimension in
/// front, broadcast where it depends on no batched input. Collectives over the axis' name, in the program and
/// in those that its equations hold, are between the examples: they become operations on the dimension.
/// Throws TraceError for one that cannot (over groups, or over several axes where it is no sum or extreme).
Program vmap(const Program& program, const std::vector<bool>& in_batched, const MappedAxis& axis);

/// Adds the program's equations, for all examples at once, to `builder`. Batching rules of primitives that
/// hold programs give it the axis of their call.
VmapValues inline_vmap(Builder& builder, const Program& program, std::span<const Value> inputs,
                       const std::vector<bool>& in_batched, const MappedAxis& axis);

}  // namespace lockstep::transforms
