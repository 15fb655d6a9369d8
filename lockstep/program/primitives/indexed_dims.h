#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/program/primitives/gather.h"

/// What gather and the scatters have in common; a scatter's numbers go by the gather's names.
namespace lockstep::indexed {

bool contains(const std::vector<std::int64_t>& dims, std::int64_t d);

/// The operand's dimensions that are neither collapsed nor batching.
std::vector<std::int64_t> window_dims(std::int64_t rank, const GatherDimensionNumbers& numbers);

/// The dimensions of a gather's result (a scatter's updates) of this rank that are not offset dimensions.
std::vector<std::int64_t> batch_dims(std::int64_t rank, const std::vector<std::int64_t>& offset_dims);

/// The indices in front of number k of each index vector, those numbers, and those behind; of no numbers,
/// none.
std::array<std::optional<Value>, 3> split_at(const Value& indices, std::int64_t k);

/// The reverse, with other numbers k.
Value joined(const std::array<std::optional<Value>, 3>& parts, const Value& numbers);

/// Throws ShapeError or DTypeError where the numbers do not fit the operand and the indices.
void check(const Aval& operand, const Aval& indices, const GatherDimensionNumbers& numbers);

/// Throws ShapeError unless there are `count` offset dimensions, rising, of a value of this rank; `what` says
/// what they are.
void check_offsets(const std::vector<std::int64_t>& offset_dims, std::size_t count, std::size_t rank,
                   std::string_view what);

/// The numbers once the operand (and, of a scatter, the updates), the indices, or both have the mapped
/// dimension in front.
GatherDimensionNumbers batched(GatherDimensionNumbers numbers, bool operand, bool indices);

/// "offset_dims = [0], index_vector_dim = 1": the text between the angle brackets.
std::string mlir(
    const std::vector<std::pair<std::string_view, const std::vector<std::int64_t>*>>& dimension_lists,
    std::int64_t index_vector_dim);

}  // namespace lockstep::indexed
