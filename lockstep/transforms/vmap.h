#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/program/primitive.h"

namespace lockstep::transforms {

/// The program for `size` examples at once: an input that is batched has, in front, a dimension of that size,
/// over which it is mapped; the others serve all examples. Every output has the dimension in front, broadcast
/// where it depends on no batched input. Collectives over `axis_name`, if it is not empty, are between the
/// examples: they become operations on the dimension. Throws TraceError for one that cannot (over groups, or
/// over several axes where it is no sum or extreme).
Program vmap(const Program& program, const std::vector<bool>& in_batched, std::int64_t size,
             const std::string& axis_name = "");

/// Adds the program's equations, for `size` examples at once, to `builder`. For batching rules of primitives
/// that hold programs; the axis name is that of the vmap that is under way on this thread.
VmapValues inline_vmap(Builder& builder, const Program& program, std::span<const Value> inputs,
                       const std::vector<bool>& in_batched, std::int64_t size);

}  // namespace lockstep::transforms
