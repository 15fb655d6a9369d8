#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/program/program.h"

namespace lockstep::internal {

/// The program's outputs for these arrays, computed operation by operation, each with its own line; to be
/// called outside of traces. For a cond only the selected branch is computed. A while and a scan are loops
/// here and read their conditions, whose values must be on this process. The operations under shard_map,
/// whose values differ between devices, are one program. An array is released after its last use. Throws what
/// the operations throw.
std::vector<Array> evaluate(const Program& program, std::span<const Array> inputs);

/// The element of an array's leading dimension at `index`.
Array element(const Array& array, std::int64_t index);

/// Arrays of one shape and dtype as the elements of a new leading dimension; at least one.
Array stacked(const std::vector<Array>& elements);

}  // namespace lockstep::internal
