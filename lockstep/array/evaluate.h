#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/program/program.h"

namespace lockstep::internal {

/// The program's outputs for these arrays, computed operation by operation, each from its own line; to be
/// called outside of traces. Of a cond the branch that the index tells is computed, a while and a scan are
/// loops here, which read what decides: its value must lie with this process. The operations under shard_map,
/// whose values are each device's own, are one program. An array is let go after its last use. Throws what
/// the operations throw.
std::vector<Array> evaluate(const Program& program, std::span<const Array> inputs);

/// The element of an array's leading dimension at `index`.
Array element(const Array& array, std::int64_t index);

/// Arrays of one shape and dtype as the elements of a new leading dimension; at least one.
Array stacked(const std::vector<Array>& elements);

}  // namespace lockstep::internal
