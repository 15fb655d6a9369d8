// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/program/primitives/gather.h"

/// The common parts of gather and the scatters; a scatter's dimension numbers use gather's names.
namespace lockstep::ir::indexed {

bool contains(const std::vector<std::int64_t>& dims, std::int64_t d);

/// The operand's dimensions that are neither collapsed nor batching.
std::vector<std::int64_t> window_dims(std::int64_t rank, const GatherDimensionNumbers& numbers);

/// The dimensions of a gather's result (a scatter's updates) of this rank that are not offset dimensions.
std::vector<std::int64_t> batch_dims(std::int64_t rank, const std::vector<std::int64_t>& offset_dims);

/// The parts of the indices before number k of each index vector, number k itself, and after it; a part
/// without numbers is unset.
std::array<std::optional<Value>, 3> split_at(const Value& indices, std::int64_t k);

/// The inverse of split_at, with other numbers at k.
Value joined(const std::array<std::optional<Value>, 3>& parts, const Value& numbers);

/// Throws ShapeError or DTypeError unless the dimension numbers match the operand and the indices.
void check(const Aval& operand, const Aval& indices, const GatherDimensionNumbers& numbers);

/// Throws ShapeError unless there are `count` offset dimensions, ascending, for a value of this rank; `what`
/// describes them.
void check_offsets(const std::vector<std::int64_t>& offset_dims, std::size_t count, std::size_t rank,
                   std::string_view what);

/// The dimension numbers for the case that the operand (and a scatter's updates), the indices, or both have
/// the mapped dimension first.
GatherDimensionNumbers batched(GatherDimensionNumbers numbers, bool operand, bool indices);

/// "offset_dims = [0], index_vector_dim = 1": the text between the angle brackets.
std::string mlir(
    const std::vector<std::pair<std::string_view, const std::vector<std::int64_t>*>>& dimension_lists,
    std::int64_t index_vector_dim);

}  // namespace lockstep::ir::indexed
