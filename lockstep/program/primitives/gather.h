// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>

#include "lockstep/program/gather_scatter_mode.h"
#include "lockstep/program/primitives/apply.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ir {

/// Moving elements by index. `gather` clamps indices out of bounds; the scatters drop an update that is not
/// completely within the operand.
const Primitive& gather_p();
const Primitive& scatter_p();
const Primitive& scatter_add_p();
const Primitive& scatter_mul_p();
const Primitive& scatter_min_p();
const Primitive& scatter_max_p();

/// How the dimensions of a gather's operand, indices and result correspond. The last dimension of the indices
/// is an index vector, whose k-th number is a start in the operand's dimension start_index_map[k]. The other
/// dimensions of the indices, in order, are the dimensions of the result that are not offset_dims.
/// offset_dims are, in order, the operand's dimensions that are neither collapsed (of slice size 1, and
/// removed) nor batching: operand_batching_dims[i] of the operand corresponds to
/// start_indices_batching_dims[i] of the indices.
struct GatherDimensionNumbers {
  std::vector<std::int64_t> offset_dims, collapsed_slice_dims, start_index_map,
      operand_batching_dims = {}, start_indices_batching_dims = {};
};

/// The same for a scatter: its updates correspond to a gather's result.
struct ScatterDimensionNumbers {
  std::vector<std::int64_t> update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims,
      operand_batching_dims = {}, scatter_indices_batching_dims = {};
};

struct SliceGatherParams {
  static constexpr std::array<std::string_view, 6> kFields = {
      "offset_dims",           "collapsed_slice_dims",        "start_index_map",
      "operand_batching_dims", "start_indices_batching_dims", "slice_sizes"};
  std::vector<std::int64_t> offset_dims, collapsed_slice_dims, start_index_map, operand_batching_dims,
      start_indices_batching_dims;
  Shape slice_sizes;
};

struct ScatterParams {
  static constexpr std::array<std::string_view, 6> kFields = {
      "update_window_dims",    "inserted_window_dims",          "scatter_dims_to_operand_dims",
      "operand_batching_dims", "scatter_indices_batching_dims", "unique_indices"};
  std::vector<std::int64_t> update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims,
      operand_batching_dims, scatter_indices_batching_dims;
  bool unique_indices;
};

/// The value that a gather with kFillOrDrop returns by default for elements out of bounds: NaN, for signed
/// integers the lowest number, for unsigned ones the highest, true for bools.
Scalar default_fill(DType dtype);

/// The scatter's dimension numbers under the names of gather.
GatherDimensionNumbers as_gather(const ScatterDimensionNumbers& numbers);

/// The sizes of the slices that a scatter updates, in each dimension of the operand.
Shape scatter_slice_sizes(const Shape& operand, const Shape& updates, const ScatterDimensionNumbers& numbers);

namespace lax {
namespace internal {

/// These numbers along the last dimension of an array of this dtype and shape.
template <Operand V>
V along_last(const V& like, const std::vector<std::int64_t>& numbers, DType dtype, const Shape& shape) {
  const bool one = std::ranges::all_of(numbers, [&](std::int64_t n) { return n == numbers.front(); });
  if (one) return full(like, Scalar::of(numbers.empty() ? 0 : numbers.front()), dtype, shape);
  std::vector<V> parts;
  for (std::int64_t number : numbers) parts.push_back(full(like, Scalar::of(number), dtype, {1}));
  return broadcast_in_dim(concatenate(std::span<const V>(parts), 0), shape,
                          {static_cast<std::int64_t>(shape.size()) - 1});
}

/// The indices in a dtype that can hold the sizes of all dimensions of the operand to which they refer.
template <Operand V>
V wide(const V& indices, const Shape& operand, const std::vector<std::int64_t>& index_map) {
  const DType dtype = indices.aval().dtype;
  DType needed = DType::kI32;
  for (std::int64_t d : index_map) {
    const auto i = static_cast<std::size_t>(d);
    if (i < operand.size() && place_dtype(operand[i]) == DType::kI64) needed = DType::kI64;
  }
  return is_integer(dtype) && size_of(dtype) < size_of(needed) ? convert_element_type(indices, needed)
                                                               : indices;
}

/// The largest valid start in each dimension to which indices refer.
inline std::vector<std::int64_t> last_starts(const Shape& operand, const Shape& slice_sizes,
                                             const std::vector<std::int64_t>& index_map) {
  std::vector<std::int64_t> last;
  for (std::int64_t d : index_map) {
    const auto i = static_cast<std::size_t>(d);
    if (i < operand.size() && i < slice_sizes.size()) last.push_back(operand[i] - slice_sizes[i]);
  }
  return last;
}

template <Operand V>
V clamped(const V& indices, const std::vector<std::int64_t>& last) {
  const Aval aval = indices.aval();
  V below = min(indices, along_last(indices, last, aval.dtype, aval.shape));
  return max(below, full(indices, Scalar::of(0), aval.dtype, aval.shape));
}

/// For each index vector whether its slice is within the operand.
template <Operand V>
V within(const V& indices, const std::vector<std::int64_t>& last) {
  const Aval aval = indices.aval();
  V fits = logical_and(ge(indices, full(indices, Scalar::of(0), aval.dtype, aval.shape)),
                       le(indices, along_last(indices, last, aval.dtype, aval.shape)));
  return reduce_and(fits, {aval.rank() - 1});
}

}  // namespace internal

/// One slice of the operand, of slice_sizes, for each index vector.
template <Operand V>
V gather(const V& operand, const V& indices, const GatherDimensionNumbers& numbers, const Shape& slice_sizes,
         GatherScatterMode mode = GatherScatterMode::kFillOrDrop,
         std::optional<Scalar> fill_value = std::nullopt) {
  const V starts = internal::wide(indices, operand.aval().shape, numbers.start_index_map);
  V taken = apply1<V>(gather_p(),
                      OpParams::of(SliceGatherParams{numbers.offset_dims, numbers.collapsed_slice_dims,
                                                     numbers.start_index_map, numbers.operand_batching_dims,
                                                     numbers.start_indices_batching_dims, slice_sizes}),
                      {operand, starts});
  if (mode != GatherScatterMode::kFillOrDrop || numbers.start_index_map.empty()) return taken;
  const Aval aval = taken.aval();
  std::vector<std::int64_t> batch;
  for (std::int64_t d = 0; d < aval.rank(); ++d) {
    if (std::ranges::find(numbers.offset_dims, d) == numbers.offset_dims.end()) batch.push_back(d);
  }
  V fits = internal::within(
      starts, internal::last_starts(operand.aval().shape, slice_sizes, numbers.start_index_map));
  V fill = full(taken, fill_value.value_or(default_fill(aval.dtype)), aval.dtype, aval.shape);
  return select(broadcast_in_dim(fits, aval.shape, batch), taken, fill);
}

/// The operand with the updates written to the slices given by the indices, by `kind`: scatter_p() (of
/// several updates of one element one is used), scatter_add_p(), …. unique_indices: a promise of the caller
/// that no element is updated twice.
template <Operand V>
V scatter_by(const Primitive& kind, const V& operand, const V& indices, const V& updates,
             const ScatterDimensionNumbers& numbers, GatherScatterMode mode = GatherScatterMode::kFillOrDrop,
             bool unique_indices = false) {
  V starts = internal::wide(indices, operand.aval().shape, numbers.scatter_dims_to_operand_dims);
  if (mode == GatherScatterMode::kClip && !numbers.scatter_dims_to_operand_dims.empty()) {
    const Shape sizes = scatter_slice_sizes(operand.aval().shape, updates.aval().shape, numbers);
    starts = internal::clamped(
        starts, internal::last_starts(operand.aval().shape, sizes, numbers.scatter_dims_to_operand_dims));
  }
  return apply1<V>(
      kind,
      OpParams::of(ScatterParams{numbers.update_window_dims, numbers.inserted_window_dims,
                                 numbers.scatter_dims_to_operand_dims, numbers.operand_batching_dims,
                                 numbers.scatter_indices_batching_dims, unique_indices}),
      {operand, starts, updates});
}
template <Operand V>
V scatter(const V& operand, const V& indices, const V& updates, const ScatterDimensionNumbers& numbers,
          GatherScatterMode mode = GatherScatterMode::kFillOrDrop, bool unique_indices = false) {
  return scatter_by(scatter_p(), operand, indices, updates, numbers, mode, unique_indices);
}
template <Operand V>
V scatter_add(const V& operand, const V& indices, const V& updates, const ScatterDimensionNumbers& numbers,
              GatherScatterMode mode = GatherScatterMode::kFillOrDrop, bool unique_indices = false) {
  return scatter_by(scatter_add_p(), operand, indices, updates, numbers, mode, unique_indices);
}

/// The dimension numbers that take one element for each index along the axis. The operand has the same
/// dimensions as the indices (without their last one), and the same sizes except at the axis.
inline GatherDimensionNumbers along_axis(std::int64_t rank, std::int64_t axis) {
  std::vector<std::int64_t> others;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d != axis) others.push_back(d);
  }
  return {{}, {axis}, {axis}, others, others};
}

/// Element [i…, indices[i…, k, j…], j…] of x at [i…, k, j…], where k is at the axis. x and the indices have
/// the same rank and, except at the axis, the same shape.
template <Operand V>
V take_along_axis(const V& x, const V& indices, std::int64_t axis, GatherScatterMode mode,
                  std::optional<Scalar> fill_value = std::nullopt) {
  Shape vectors = indices.aval().shape;
  const std::int64_t rank = x.aval().rank();
  vectors.push_back(1);
  return gather(x, reshape(indices, vectors), along_axis(rank, axis),
                Shape(static_cast<std::size_t>(rank), 1), mode, fill_value);
}

}  // namespace lax
}  // namespace lockstep::ir
