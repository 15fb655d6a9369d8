// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/indexing_plan.h"
#include "lockstep/ops/shape.h"
#include "lockstep/ops/sorting.h"
#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/gather.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/sort.h"
#include "lockstep/program/primitives/window.h"

namespace lockstep {
namespace {

using ops::Tracers;

const ir::ScatterDimensionNumbers kElements = {{}, {0}, {0}};

Array whole(const Array& like, std::int64_t value, const Shape& shape, DType dtype) {
  return ir::lax::full(like, ir::Scalar::of(value), dtype, shape);
}

/// `onto`, of one dimension, with the updates put at the places by the primitive; those beyond it are left
/// out.
Array put(const ir::Primitive& kind, const Array& onto, const Array& places, const Array& updates) {
  return ir::lax::scatter_by(kind, onto, ir::lax::reshape(places, {places.size(), 1}), updates, kElements);
}

void check_size(std::string_view name, std::int64_t size) {
  if (size < 0) fail<ShapeError>("[{}] expected a size of 0 or more, got {}{}", name, size, ops::at());
}

std::vector<Array> unique_arrays(const std::string& name, const Operand& x, std::int64_t size,
                                 std::optional<double> fill_value) {
  CallSiteScope here(x.site());
  check_size(name, size);
  const Array operands[] = {x.as_array()};
  const std::string key = fmt::format("{} {}", size, fill_value ? fmt::format("{}", *fill_value) : "");
  return run_operation(name, key, operands, [&](Tracers t) -> std::vector<Array> {
    const Shape given = t[0].shape(), slots = {size};
    const std::int64_t n = t[0].size();
    Array flat = ir::lax::reshape(t[0], {n});
    const DType dtype = flat.dtype();
    if (is_complex(dtype)) {
      // One NaN for all: the last in order.
      const Array part = ir::lax::full_like(ir::lax::real(flat), std::numeric_limits<double>::quiet_NaN());
      flat =
          ir::lax::select(ir::lax::ne(flat, flat), ir::lax::complex(part, ir::lax::full_like(part, 0)), flat);
    }
    const ir::Scalar fill = is_inexact(dtype)
                                ? ir::Scalar::of(fill_value.value_or(0))
                                : ir::Scalar::of(static_cast<std::int64_t>(fill_value.value_or(0)));
    const DType places = place_dtype(std::max(n, size));
    auto number = [&](std::int64_t value, const Shape& shape) { return whole(flat, value, shape, places); };
    const Array none = number(0, slots);
    if (n == 0) return {ir::lax::full(flat, fill, dtype, slots), none, number(0, given), none};
    const Array both[] = {flat, ir::lax::iota(flat, places, {n}, 0)};
    const std::vector<Array> sorted = ir::lax::sort(std::span<const Array>(both), 0);
    const Array before = ir::lax::slice(sorted[0], {0}, {n - 1}),
                behind = ir::lax::slice(sorted[0], {1}, {n});
    Array differs = ir::lax::ne(before, behind);
    if (is_inexact(dtype)) {
      const Array both_nan = ir::lax::logical_and(ir::lax::ne(before, before), ir::lax::ne(behind, behind));
      differs = ir::lax::logical_and(differs, ir::lax::logical_not(both_nan));
    }
    const Array parts[] = {ir::lax::full(flat, ir::Scalar::of(true), DType::kBool, {1}), differs};
    const Array is_first = ir::lax::concatenate(std::span<const Array>(parts), 0);
    const Array group =
        ir::lax::sub(ir::lax::cumulative(ir::cumsum_p(), ir::lax::convert_element_type(is_first, places), 0),
                     number(1, {n}));
    const Array first_group = ir::lax::select(is_first, group, number(size, {n}));
    auto head = [&](const Array& values) {
      return ir::lax::broadcast_in_dim(ir::lax::slice(values, {0}, {1}), slots, {0});
    };
    const Array filler = fill_value ? ir::lax::full(flat, fill, dtype, slots) : head(sorted[0]);
    const Array inverse = put(ir::scatter_p(), number(0, {n}), sorted[1], group);
    return {put(ir::scatter_p(), filler, first_group, sorted[0]),
            put(ir::scatter_p(), head(sorted[1]), first_group, sorted[1]), ir::lax::reshape(inverse, given),
            put(ir::scatter_add_p(), none, group, number(1, {n}))};
  });
}

/// The positions, in the flattened x, of the elements that are not 0, in row-major order, and whether each
/// entry is valid.
std::vector<Array> nonzero_places(const Array& x, std::int64_t size) {
  const std::int64_t n = x.size();
  const Array flat = ir::lax::reshape(x, {n});
  const Array holds = flat.dtype() == DType::kBool ? flat : ir::lax::convert_element_type(flat, DType::kBool);
  const DType dtype = place_dtype(std::max(n, size));
  const Array counted = ir::lax::convert_element_type(holds, dtype);
  const Array slot = ir::lax::select(
      holds, ir::lax::sub(ir::lax::cumulative(ir::cumsum_p(), counted, 0), whole(flat, 1, {n}, dtype)),
      whole(flat, size, {n}, dtype));
  const Array places =
      put(ir::scatter_p(), whole(flat, 0, {size}, dtype), slot, ir::lax::iota(flat, dtype, {n}, 0));
  const Array count = ir::lax::broadcast_in_dim(ir::lax::reduce_sum(counted, {0}), {size}, {});
  return {places, ir::lax::lt(ir::lax::iota(flat, dtype, {size}, 0), count)};
}

Array counts(const Operand& x, std::int64_t length, const Operand* weights) {
  CallSiteScope here(x.site());
  check_size("bincount", length);
  if (!is_integer(x.type().dtype)) {
    fail<DTypeError>("[bincount] expected whole numbers, got {}{}; convert with astype", to_string(x.aval()),
                     ops::at());
  }
  if (weights && weights->shape() != x.shape()) {
    fail<ShapeError>("[bincount] expected weights of the shape of {}, got {}{}", to_string(x.aval()),
                     to_string(weights->aval()), ops::at());
  }
  std::vector<Array> operands = {x.as_array()};
  if (weights) operands.push_back(weights->as_array());
  return std::move(
      run_operation("bincount", fmt::format("{}", length), operands, [&](Tracers t) {
        const std::int64_t n = t[0].size();
        const Array flat = ir::lax::internal::wide(ir::lax::reshape(t[0], {n}), {length}, {0});
        const Array places = ir::lax::max(flat, ir::lax::full(flat, ir::Scalar::of(0), flat.dtype(), {n}));
        const Array added = t.size() == 2 ? ir::lax::reshape(t[1], {n}) : whole(flat, 1, {n}, place_dtype(n));
        const ir::Scalar zero = is_inexact(added.dtype()) ? ir::Scalar::of(0.0) : ir::Scalar::of(0);
        return std::vector<Array>{
            put(ir::scatter_add_p(), ir::lax::full(flat, zero, added.dtype(), {length}), places, added)};
      }).front());
}

Array by_segment(const std::string& name, const ir::Primitive& kind, ir::Scalar (*empty)(DType),
                 const Operand& data, const Operand& segment_ids, std::int64_t num_segments) {
  CallSiteScope here(data.site());
  check_size(name, num_segments);
  const Aval rows = data.aval(), ids = segment_ids.aval();
  ops::check_indices(name, ids);
  if (ids.rank() != 1 || rows.rank() == 0 || rows.shape[0] != ids.shape[0]) {
    fail<ShapeError>("[{}] expected a segment for each row of {}, got {}{}", name, to_string(rows),
                     to_string(ids), ops::at());
  }
  return ops::run(
      name, fmt::format("{}", num_segments), {data.as_array(), segment_ids.as_array()}, [&](Tracers t) {
        Shape shape = rows.shape;
        shape[0] = num_segments;
        ir::ScatterDimensionNumbers numbers{{}, {0}, {0}};
        for (std::int64_t d = 1; d < rows.rank(); ++d) numbers.update_window_dims.push_back(d);
        return ir::lax::scatter_by(kind, ir::lax::full(t[0], empty(rows.dtype), rows.dtype, shape),
                                   ir::lax::reshape(t[1], {ids.shape[0], 1}), t[0], numbers);
      });
}

ir::Scalar number(DType dtype, int value) {
  return is_inexact(dtype) ? ir::Scalar::of(static_cast<double>(value)) : ir::Scalar::of(value);
}

}  // namespace

Array segment_sum(const Operand& data, const Operand& segment_ids, std::int64_t num_segments) {
  return by_segment(
      "segment_sum", ir::scatter_add_p(), [](DType dtype) { return number(dtype, 0); }, data, segment_ids,
      num_segments);
}
Array segment_prod(const Operand& data, const Operand& segment_ids, std::int64_t num_segments) {
  return by_segment(
      "segment_prod", ir::scatter_mul_p(), [](DType dtype) { return number(dtype, 1); }, data, segment_ids,
      num_segments);
}
Array segment_max(const Operand& data, const Operand& segment_ids, std::int64_t num_segments) {
  return by_segment(
      "segment_max", ir::scatter_max_p(), [](DType dtype) { return ir::rules::extreme(dtype, -1); }, data,
      segment_ids, num_segments);
}
Array segment_min(const Operand& data, const Operand& segment_ids, std::int64_t num_segments) {
  return by_segment(
      "segment_min", ir::scatter_min_p(), [](DType dtype) { return ir::rules::extreme(dtype, 1); }, data,
      segment_ids, num_segments);
}

Array unique(const Operand& x, std::int64_t size, std::optional<double> fill_value) {
  return unique_arrays("unique", x, size, fill_value)[0];
}

UniqueResult unique_all(const Operand& x, std::int64_t size, std::optional<double> fill_value) {
  std::vector<Array> all = unique_arrays("unique_all", x, size, fill_value);
  return {all[0], all[1], all[2], all[3]};
}

std::vector<Array> nonzero(const Operand& x, std::int64_t size, std::int64_t fill_value) {
  CallSiteScope here(x.site());
  check_size("nonzero", size);
  const Shape shape = x.shape();
  if (shape.empty())
    fail<ShapeError>("[nonzero] expected one dimension or more, got {}{}", to_string(x.aval()), ops::at());
  const Array operands[] = {x.as_array()};
  return run_operation("nonzero", fmt::format("{} {}", size, fill_value), operands, [&](Tracers t) {
    const std::vector<Array> found = nonzero_places(t[0], size);
    std::vector<Array> results(shape.size());
    Array rest = found[0];
    for (std::size_t d = shape.size(); d-- > 0;) {
      const Array divisor = whole(rest, std::max<std::int64_t>(shape[d], 1), {size}, rest.dtype());
      results[d] = ir::lax::select(found[1], ir::lax::rem(rest, divisor),
                                   whole(rest, fill_value, {size}, rest.dtype()));
      rest = ir::lax::div(rest, divisor);
    }
    return results;
  });
}

Array flatnonzero(const Operand& x, std::int64_t size, std::int64_t fill_value) {
  CallSiteScope here(x.site());
  return nonzero(ravel(x), size, fill_value)[0];
}

Array bincount(const Operand& x, std::int64_t length) { return counts(x, length, nullptr); }
Array bincount(const Operand& x, std::int64_t length, const Operand& weights) {
  return counts(x, length, &weights);
}

}  // namespace lockstep
