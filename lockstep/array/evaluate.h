// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/program/program.h"

namespace lockstep::internal {

/// The program's outputs for these arrays, computed operation by operation, each with its own call site. Call
/// it outside of traces. For a cond only the selected branch is computed. A while and a scan are C++ loops
/// that read their conditions, whose values must be on this process. The operations under shard_map, whose
/// values differ between devices, form one program. An array is released after its last use. Throws the
/// errors of the operations.
std::vector<Array> evaluate(const ir::Program& program, std::span<const Array> inputs);

/// The element at `index` of an array's first dimension.
Array element(const Array& array, std::int64_t index);

/// Arrays with one shape and dtype, stacked along a new first dimension; at least one.
Array stacked(const std::vector<Array>& elements);

}  // namespace lockstep::internal
