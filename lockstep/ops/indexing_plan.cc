// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/indexing_plan.h"

#include <algorithm>

#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/gather.h"
#include "lockstep/program/primitives/reverse.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ops {
namespace {

using Integers = std::vector<std::int64_t>;
using Kind = Index::Kind;

/// The indices with slices in place of the ellipsis and for the dimensions left out.
std::vector<Index> expanded(std::string_view operation, const Aval& x, std::span<const Index> given) {
  std::int64_t used = 0, ellipses = 0;
  for (const Index& index : given) {
    ellipses += index.kind() == Kind::kEllipsis;
    used += index.kind() != Kind::kEllipsis && index.kind() != Kind::kNewAxis;
  }
  if (ellipses > 1)
    fail<ShapeError>("[{}] expected one ellipsis at most, got {}{}", operation, ellipses, at());
  if (used > x.rank()) {
    fail<ShapeError>("[{}] got {} indices for {}, which has {} dimensions{}", operation, used, to_string(x),
                     x.rank(), at());
  }
  std::vector<Index> all;
  const auto left = static_cast<std::size_t>(x.rank() - used);
  for (const Index& index : given) {
    if (index.kind() == Kind::kEllipsis)
      all.insert(all.end(), left, Index(slice()));
    else
      all.push_back(index);
  }
  if (ellipses == 0) all.insert(all.end(), left, Index(slice()));
  return all;
}

struct Range {
  std::int64_t start, limit, stride, count;
  bool reversed;
};

/// Python's rule: negative bounds count from the end, and all are brought within the dimension.
Range range_of(std::string_view operation, const Slice& slice, std::int64_t size) {
  if (slice.step == 0) fail<ShapeError>("[{}] expected a slice step other than 0{}", operation, at());
  const bool backwards = slice.step < 0;
  const std::int64_t low = backwards ? -1 : 0, high = backwards ? size - 1 : size;
  auto within = [&](std::optional<std::int64_t> bound, std::int64_t otherwise) {
    if (!bound) return otherwise;
    return std::clamp(*bound < 0 ? *bound + size : *bound, low, high);
  };
  const std::int64_t start = within(slice.start, backwards ? high : low);
  const std::int64_t stop = within(slice.stop, backwards ? low : high);
  const std::int64_t stride = std::abs(slice.step), space = backwards ? start - stop : stop - start;
  const std::int64_t count = space <= 0 ? 0 : (space + stride - 1) / stride;
  if (count == 0) return {0, 0, 1, 0, false};
  const std::int64_t first = backwards ? start - (count - 1) * stride : start;
  return {first, first + (count - 1) * stride + 1, count == 1 ? 1 : stride, count, backwards && count > 1};
}

}  // namespace

void check_indices(std::string_view operation, const Aval& indices) {
  if (indices.dtype == DType::kBool) {
    fail<DTypeError>(
        "[{}] an array of bools chooses a number of elements that is not known when it is traced{}; use "
        "where, or nonzero with a size",
        operation, at());
  }
  if (!is_integer(indices.dtype)) {
    fail<DTypeError>(
        "[{}] expected whole numbers as indices, got {}{}; divide integers with floor_divide (x / y is a "
        "floating number), or convert with astype",
        operation, to_string(indices), at());
  }
}

Array wrapped_indices(const Array& indices, std::int64_t size) {
  const Aval aval = indices.aval();
  const bool wide = size_of(aval.dtype) == 8 || aval.dtype == DType::kU32 || place_dtype(size) == DType::kI64;
  const DType dtype = wide ? DType::kI64 : DType::kI32;
  const Array index = ir::lax::convert_element_type(indices, dtype);
  if (info(aval.dtype).kind == DTypeKind::kUnsigned) return index;
  return ir::lax::select(ir::lax::lt(index, ir::lax::full(index, ir::Scalar::of(0), dtype, aval.shape)),
                         ir::lax::add(index, ir::lax::full(index, ir::Scalar::of(size), dtype, aval.shape)),
                         index);
}

IndexPlan plan_index(std::string_view operation, const Aval& x, std::span<const Index> indices) {
  const std::vector<Index> items = expanded(operation, x, indices);
  IndexPlan plan{.shape = x.shape};
  std::vector<std::size_t> advanced;  // items that are arrays, or numbers
  std::vector<Aval> avals;
  std::size_t d = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Index& item = items[i];
    if (item.kind() == Kind::kNewAxis) continue;
    const std::int64_t size = x.shape[d];
    Range range{0, size, 1, size, false};
    if (item.kind() == Kind::kSlice) {
      range = range_of(operation, item.range(), size);
      plan.squeezed.push_back(range.count);
    } else if (item.kind() == Kind::kNumber) {
      const std::int64_t n = item.number();
      if (n < -size || n >= size) {
        fail<ShapeError>(
            "[{}] index {} is out of range for dimension {} of {}, which has size {}{}; count from 0, or "
            "from -1 at the end",
            operation, n, d, to_string(x), size, at());
      }
      const std::int64_t at = n < 0 ? n + size : n;
      range = {at, at + 1, 1, 1, false};
      advanced.push_back(i);
    } else {
      if (!item.array().valid()) fail("[{}] an Array without a value is used as an index{}", operation, at());
      check_indices(operation, item.array().aval());
      plan.array_dims.push_back(static_cast<std::int64_t>(plan.squeezed.size()));
      plan.squeezed.push_back(size);
      plan.arrays.push_back(item.array());
      avals.push_back(item.array().aval());
      advanced.push_back(i);
    }
    plan.starts.push_back(range.start);
    plan.limits.push_back(range.limit);
    plan.strides.push_back(range.stride);
    plan.view.push_back(range.count);
    if (range.reversed) plan.reversed.push_back(static_cast<std::int64_t>(d));
    plan.whole = plan.whole && range.count == size && !range.reversed;
    ++d;
  }
  if (plan.arrays.empty()) {
    advanced.clear();
  } else {
    plan.batch = broadcast_shapes(operation, avals);
  }
  const bool together = !advanced.empty() && advanced.back() - advanced.front() + 1 == advanced.size();
  auto add_batch = [&] {
    plan.taken.insert(plan.taken.end(), plan.batch.begin(), plan.batch.end());
    plan.result.insert(plan.result.end(), plan.batch.begin(), plan.batch.end());
  };
  if (!together) add_batch();
  d = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (together && i == advanced.front()) add_batch();
    if (items[i].kind() == Kind::kNewAxis) {
      plan.result.push_back(1);
      continue;
    }
    if (items[i].kind() == Kind::kSlice) {
      plan.offset_dims.push_back(static_cast<std::int64_t>(plan.taken.size()));
      plan.taken.push_back(plan.view[d]);
      plan.result.push_back(plan.view[d]);
    }
    ++d;
  }
  return plan;
}

bool IndexPlan::is_block() const {
  auto is = [](std::int64_t value) { return [value](std::int64_t n) { return n == value; }; };
  return !whole && reversed.empty() && std::ranges::all_of(strides, is(1)) && num_elements(view) > 0;
}

DType IndexPlan::place_type() const {
  return place_dtype(shape.empty() ? 0 : *std::ranges::max_element(shape));
}

std::string IndexPlan::key(bool at_a_place) const {
  const std::string slices =
      at_a_place ? "at " + to_string(view) : to_string(starts) + to_string(limits) + to_string(strides);
  return fmt::format("{}{}{}{}{}{}", slices, to_string(reversed), to_string(squeezed), to_string(array_dims),
                     to_string(offset_dims), to_string(result));
}

std::vector<Array> IndexPlan::corner(const Array& x, const std::optional<Array>& place) const {
  std::vector<Array> all;
  for (std::size_t d = 0; d < starts.size(); ++d) {
    const auto k = static_cast<std::int64_t>(d);
    all.push_back(place ? ir::lax::reshape(ir::lax::slice(*place, {k}, {k + 1}), {})
                        : ir::lax::full(x, ir::Scalar::of(starts[d]), place_type(), {}));
  }
  return all;
}

Array IndexPlan::viewed(const Array& x, const std::optional<Array>& place) const {
  if (whole) return ir::lax::reshape(x, squeezed);
  if (place) {
    const std::vector<Array> from = corner(x, place);
    return ir::lax::reshape(ir::lax::dynamic_slice(x, std::span<const Array>(from), view), squeezed);
  }
  return ir::lax::reshape(ir::lax::rev(ir::lax::slice(x, starts, limits, strides), reversed), squeezed);
}

Array IndexPlan::starts_of(std::span<const Array> arrays) const {
  Shape column = batch;
  column.push_back(1);
  DType dtype = DType::kI32;
  std::vector<Array> columns;
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    const std::int64_t size = squeezed[static_cast<std::size_t>(array_dims[k])];
    columns.push_back(ir::lax::reshape(broadcast(wrapped_indices(arrays[k], size), batch), column));
    if (columns.back().dtype() == DType::kI64) dtype = DType::kI64;
  }
  for (Array& each : columns) each = ir::lax::convert_element_type(each, dtype);
  if (columns.size() == 1) return columns.front();
  return ir::lax::concatenate(std::span<const Array>(columns), static_cast<std::int64_t>(batch.size()));
}

Array IndexPlan::read(const Array& x, std::span<const Array> arrays, const std::optional<Array>& place,
                      const IndexOptions& options) const {
  if (num_elements(result) == 0 && !shape.empty()) {
    const Shape none(shape.size(), 0);
    return ir::lax::reshape(ir::lax::slice(x, none, none), result);
  }
  Array part = viewed(x, place);
  if (!arrays.empty()) {
    Shape sizes = squeezed;
    for (std::int64_t dim : array_dims) sizes[static_cast<std::size_t>(dim)] = 1;
    std::optional<ir::Scalar> fill;
    if (options.fill_value)
      fill = is_inexact(x.dtype()) ? ir::Scalar::of(*options.fill_value)
                                   : ir::Scalar::of(static_cast<std::int64_t>(*options.fill_value));
    part = ir::lax::gather(part, starts_of(arrays), {offset_dims, array_dims, array_dims}, sizes,
                           options.mode.value_or(GatherScatterMode::kClip), fill);
  }
  return ir::lax::reshape(part, result);
}

namespace {

/// The scatter's combination of an element and its update, for two arrays of one shape.
Array joined(const ir::Primitive& kind, const Array& x, const Array& update) {
  if (&kind == &ir::scatter_add_p()) return ir::lax::add(x, update);
  if (&kind == &ir::scatter_mul_p()) return ir::lax::mul(x, update);
  if (&kind == &ir::scatter_min_p()) return ir::lax::min(x, update);
  if (&kind == &ir::scatter_max_p()) return ir::lax::max(x, update);
  return update;
}

/// Which places of a dimension of this size are start, start + stride, ... before the limit.
Array in_range(const Array& like, std::int64_t size, std::int64_t start, std::int64_t limit,
               std::int64_t stride) {
  const DType dtype = place_dtype(size);
  const auto number = [&](std::int64_t n) { return ir::lax::full(like, ir::Scalar::of(n), dtype, {size}); };
  const Array at = ir::lax::iota(like, dtype, {size}, 0);
  Array within = ir::lax::logical_and(ir::lax::ge(at, number(start)), ir::lax::lt(at, number(limit)));
  if (stride == 1) return within;
  const Array step = ir::lax::rem(ir::lax::sub(at, number(start)), number(stride));
  return ir::lax::logical_and(within, ir::lax::eq(step, number(0)));
}

}  // namespace

Array IndexPlan::write(const ir::Primitive& kind, const Array& x, std::span<const Array> arrays,
                       const std::optional<Array>& place, const Array& values,
                       const IndexOptions& options) const {
  const Array old = viewed(x, place);
  Array part = arrays.empty()
                   ? joined(kind, old, values)
                   : ir::lax::scatter_by(
                         kind, old, starts_of(arrays), values, {offset_dims, array_dims, array_dims},
                         options.mode.value_or(GatherScatterMode::kFillOrDrop), options.unique_indices);
  part = ir::lax::reshape(part, view);
  if (whole || num_elements(view) == 0) return whole ? part : x;
  part = ir::lax::rev(part, reversed);
  const bool is_block = std::ranges::all_of(strides, [](std::int64_t stride) { return stride == 1; });
  // A block that is most of x is not written in place: where x is split over devices, a pad needs only halos.
  if (is_block && (place || 2 * num_elements(view) < num_elements(x.shape()))) {
    const std::vector<Array> at = corner(x, place);
    return ir::lax::dynamic_update_slice(x, part, std::span<const Array>(at));
  }
  const Shape shape = x.shape();
  Integers high, interior;
  std::optional<Array> there;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    high.push_back(shape[d] - limits[d]);
    interior.push_back(strides[d] - 1);
    if (view[d] == shape[d]) continue;
    const Array along = in_range(x, shape[d], starts[d], limits[d], strides[d]);
    const Array within = ir::lax::broadcast_in_dim(along, shape, {static_cast<std::int64_t>(d)});
    there = there ? ir::lax::logical_and(*there, within) : within;
  }
  if (!there) return part;
  const ir::Scalar zero = is_inexact(x.dtype()) ? ir::Scalar::of(0.0) : ir::Scalar::of(0);
  return ir::lax::select(
      *there, ir::lax::pad(part, ir::lax::full(x, zero, x.dtype(), {}), starts, high, interior), x);
}

}  // namespace lockstep::ops
