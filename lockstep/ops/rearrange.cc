// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/rearrange.h"

#include <algorithm>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/indexing.h"
#include "lockstep/ops/shape.h"
#include "lockstep/ops/sorting.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reverse.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep {
namespace {

using ops::Tracers;
using Integers = std::vector<std::int64_t>;

Integers rising(std::string_view name, const Operand& x, const Axes& axes) {
  const Aval aval = x.aval();
  Integers dimensions;
  for (std::int64_t d = 0; !axes.axes() && d < aval.rank(); ++d) dimensions.push_back(d);
  if (axes.axes()) {
    for (std::int64_t axis : *axes.axes()) dimensions.push_back(ops::axis_of(name, axis, aval.rank(), aval));
  }
  std::ranges::sort(dimensions);
  if (auto twice = std::ranges::adjacent_find(dimensions); twice != dimensions.end())
    fail<ShapeError>("[{}] axis {} is named twice{}", name, *twice, ops::at());
  return dimensions;
}

/// The axes of a plane, from 0.
std::pair<std::int64_t, std::int64_t> two_axes(std::string_view name, const Aval& aval, std::int64_t axis1,
                                               std::int64_t axis2) {
  const std::int64_t first = ops::axis_of(name, axis1, aval.rank(), aval),
                     second = ops::axis_of(name, axis2, aval.rank(), aval);
  if (first == second)
    fail<ShapeError>("[{}] expected two different axes, got {} twice{}", name, first, ops::at());
  return {first, second};
}

Array flipped(const std::string& name, const Operand& x, const Integers& dimensions) {
  return ops::run(name, to_string(dimensions), {x.as_array()},
                  [&](Tracers t) { return ir::lax::rev(t[0], dimensions); });
}

/// The elements from `start` to `limit` along the dimension.
Array part(const Array& x, std::size_t d, std::int64_t start, std::int64_t limit) {
  Shape starts(x.shape().size(), 0), limits = x.shape();
  starts[d] = start;
  limits[d] = limit;
  return ir::lax::slice(x, starts, limits);
}

/// x with `count` copies of each block of `block` elements along the dimension, side by side.
Array copied(const Array& x, std::size_t d, std::int64_t count, bool element_by_element) {
  Shape apart = x.shape(), result = x.shape();
  apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(element_by_element ? d + 1 : d), count);
  result[d] *= count;
  Integers kept;
  for (std::size_t i = 0; i < apart.size(); ++i) {
    if (i != (element_by_element ? d + 1 : d)) kept.push_back(static_cast<std::int64_t>(i));
  }
  return ir::lax::reshape(ir::lax::broadcast_in_dim(x, apart, kept), result);
}

std::vector<Array> cut_before(const std::string& name, const Operand& x, const Integers& indices,
                              std::int64_t axis) {
  const Aval aval = x.aval();
  const auto d = static_cast<std::size_t>(axis);
  const Array operands[] = {x.as_array()};
  return run_operation(name, fmt::format("{} {}", to_string(indices), axis), operands, [&](Tracers t) {
    std::vector<Array> parts;
    std::int64_t start = 0;
    for (std::size_t i = 0; i <= indices.size(); ++i) {
      const std::int64_t n = aval.shape[d];
      std::int64_t stop = i == indices.size() ? n : indices[i];
      stop = std::clamp<std::int64_t>(stop < 0 ? stop + n : stop, 0, n);
      parts.push_back(part(t[0], d, start, std::max(start, stop)));
      start = stop;
    }
    return parts;
  });
}

/// The arrays with dimensions of size 1 added, so that there are `rank`: in front, or, with `columns`, at the
/// end.
std::vector<Array> raised(const std::vector<Array>& arrays, std::size_t rank, bool columns) {
  std::vector<Array> result;
  for (const Array& array : arrays) {
    Shape shape = array.shape();
    while (shape.size() < rank) shape.insert(columns ? shape.end() : shape.begin(), 1);
    result.push_back(reshape(array, shape));
  }
  return result;
}

}  // namespace

Array flip(const Operand& x, Axes axis) {
  CallSiteScope here(x.site());
  return flipped("flip", x, rising("flip", x, axis));
}
Array flipud(const Operand& x) {
  CallSiteScope here(x.site());
  return flipped("flipud", x, rising("flipud", x, 0));
}
Array fliplr(const Operand& x) {
  CallSiteScope here(x.site());
  return flipped("fliplr", x, rising("fliplr", x, 1));
}

Array rot90(const Operand& x, std::int64_t k, std::int64_t axis1, std::int64_t axis2) {
  CallSiteScope here(x.site());
  const Aval aval = x.aval();
  const auto [first, second] = two_axes("rot90", aval, axis1, axis2);
  const std::int64_t quarters = ((k % 4) + 4) % 4;
  Integers order;
  for (std::int64_t d = 0; d < aval.rank(); ++d) order.push_back(d);
  std::swap(order[static_cast<std::size_t>(first)], order[static_cast<std::size_t>(second)]);
  return ops::run("rot90", fmt::format("{} {} {}", quarters, first, second), {x.as_array()}, [&](Tracers t) {
    if (quarters == 0) return t[0];
    if (quarters == 2) return ir::lax::rev(t[0], {first, second});
    if (quarters == 1) return ir::lax::transpose(ir::lax::rev(t[0], {second}), order);
    return ir::lax::rev(ir::lax::transpose(t[0], order), {second});
  });
}

Array roll(const Operand& x, std::int64_t shift, std::optional<std::int64_t> axis) {
  if (axis) return roll(x, Integers{shift}, Integers{*axis});
  CallSiteScope here(x.site());
  return ops::run("roll", fmt::format("{}", shift), {x.as_array()}, [&](Tracers t) {
    const Shape shape = t[0].shape();
    return ir::lax::reshape(ir::lax::rotate(ir::lax::reshape(t[0], {t[0].size()}), 0, -shift), shape);
  });
}

Array roll(const Operand& x, const Integers& shifts, const Integers& axes) {
  CallSiteScope here(x.site());
  if (shifts.size() != axes.size())
    fail<ShapeError>("[roll] expected a shift for each axis, got the shifts {} for the axes {}{}",
                     to_string(shifts), to_string(axes), ops::at());
  const Aval aval = x.aval();
  Integers dimensions;
  for (std::int64_t axis : axes) dimensions.push_back(ops::axis_of("roll", axis, aval.rank(), aval));
  return ops::run("roll", to_string(shifts) + to_string(dimensions), {x.as_array()}, [&](Tracers t) {
    Array result = t[0];
    for (std::size_t i = 0; i < shifts.size(); ++i)
      result = ir::lax::rotate(result, dimensions[i], -shifts[i]);
    return result;
  });
}

Array repeat(const Operand& x, std::int64_t repeats, std::optional<std::int64_t> axis) {
  CallSiteScope here(x.site());
  if (repeats < 0) fail<ShapeError>("[repeat] expected 0 or more repeats, got {}{}", repeats, ops::at());
  const Array from = axis ? x.as_array() : ravel(x);
  const auto d = static_cast<std::size_t>(ops::axis_of("repeat", axis.value_or(0), from.ndim(), from.aval()));
  return ops::run("repeat", fmt::format("{} {}", repeats, d), {from},
                  [&](Tracers t) { return copied(t[0], d, repeats, true); });
}

Array repeat(const Operand& x, const Array& repeats, RepeatOptions options) {
  CallSiteScope here(x.site());
  const Array from = options.axis ? x.as_array() : ravel(x);
  const std::int64_t axis = ops::axis_of("repeat", options.axis.value_or(0), from.ndim(), from.aval());
  const std::int64_t size = from.shape()[static_cast<std::size_t>(axis)], total = options.total_repeat_length;
  if (!is_integer(repeats.dtype())) {
    fail<DTypeError>("[repeat] expected whole numbers of repeats, got {}; convert with astype{}",
                     to_string(repeats.aval()), ops::at());
  }
  if (repeats.ndim() > 1 || (repeats.ndim() == 1 && repeats.shape()[0] != size)) {
    fail<ShapeError>(
        "[repeat] expected a number of repeats for each of {} elements of {} along axis {}, got {}{}", size,
        to_string(from.aval()), axis, to_string(repeats.aval()), ops::at());
  }
  if (total < 0 || (size == 0 && total > 0)) {
    fail<ShapeError>("[repeat] cannot make {} elements along axis {} of {}{}", total, axis,
                     to_string(from.aval()), ops::at());
  }
  return ops::run("repeat", fmt::format("counts {} {}", total, axis), {from, repeats}, [&](Tracers t) {
    const Array counts = broadcast_to(
        place_dtype(std::max(size, total)) == DType::kI64 ? astype(t[1], DType::kI64) : t[1], {size});
    // Where each element starts; the number of starts up to a position is the number of the element there.
    const Array starts = cumsum(counts) - counts;
    return take(t[0], cumsum(bincount(starts, total)) - 1, {.axis = axis, .mode = GatherScatterMode::kClip});
  });
}

Array tile(const Operand& x, const Integers& repetitions) {
  CallSiteScope here(x.site());
  if (std::ranges::any_of(repetitions, [](std::int64_t n) { return n < 0; }))
    fail<ShapeError>("[tile] expected 0 or more repetitions, got {}{}", to_string(repetitions), ops::at());
  return ops::run("tile", to_string(repetitions), {x.as_array()}, [&](Tracers t) {
    Shape shape = t[0].shape();
    Integers counts = repetitions;
    while (shape.size() < counts.size()) shape.insert(shape.begin(), 1);
    while (counts.size() < shape.size()) counts.insert(counts.begin(), 1);
    Array result = ir::lax::reshape(t[0], shape);
    for (std::size_t d = 0; d < counts.size(); ++d) {
      if (counts[d] != 1) result = copied(result, d, counts[d], false);
    }
    return result;
  });
}
Array tile(const Operand& x, std::int64_t repetitions) { return tile(x, Integers{repetitions}); }

Array diag(const Operand& x, std::int64_t k) {
  CallSiteScope here(x.site());
  const Aval aval = x.aval();
  if (aval.rank() == 2) return diagonal(x, k);
  if (aval.rank() != 1)
    fail<ShapeError>("[diag] expected one or two dimensions, got {}{}", to_string(aval), ops::at());
  return ops::run("diag", fmt::format("{}", k), {x.as_array()}, [&](Tracers t) {
    const std::int64_t n = aval.shape[0] + std::abs(k);
    const Shape square = {n, n};
    const Array zero =
        ir::lax::full(t[0], is_inexact(aval.dtype) ? ir::Scalar::of(0.0) : ir::Scalar::of(0), aval.dtype, {});
    const Array line =
        ir::lax::pad(t[0], zero, {std::max<std::int64_t>(k, 0)}, {std::max<std::int64_t>(-k, 0)}, {0});
    const Array row = ir::lax::iota(line, DType::kI32, square, 0),
                column = ir::lax::iota(line, DType::kI32, square, 1);
    const Array on =
        ir::lax::eq(column, ir::lax::add(row, ir::lax::full(row, ir::Scalar::of(k), DType::kI32, square)));
    return ir::lax::select(on, ir::lax::broadcast_in_dim(line, square, {1}),
                           ir::lax::broadcast_in_dim(zero, square, {}));
  });
}

Array diagonal(const Operand& x, std::int64_t offset, std::int64_t axis1, std::int64_t axis2) {
  CallSiteScope here(x.site());
  const Aval aval = x.aval();
  const auto [first, second] = two_axes("diagonal", aval, axis1, axis2);
  const std::int64_t rows = aval.shape[static_cast<std::size_t>(first)],
                     columns = aval.shape[static_cast<std::size_t>(second)];
  const std::int64_t down = std::max<std::int64_t>(-offset, 0), right = std::max<std::int64_t>(offset, 0);
  const std::int64_t n = std::max<std::int64_t>(std::min(rows - down, columns - right), 0);
  return ops::run("diagonal", fmt::format("{} {} {}", offset, first, second), {x.as_array()}, [&](Tracers t) {
    Integers order;
    for (std::int64_t d = 0; d < aval.rank(); ++d) {
      if (d != first && d != second) order.push_back(d);
    }
    order.push_back(first);
    order.push_back(second);
    const DType places = place_dtype(std::max(rows, columns));
    const Array place = ir::lax::iota(t[0], places, {n}, 0);
    auto from = [&](std::int64_t start) {
      if (n == 0) return place;
      return ir::lax::add(place, ir::lax::full(place, ir::Scalar::of(start), places, {n}));
    };
    return ir::lax::transpose(t[0], order)[{ellipsis, from(down), from(right)}];
  });
}

Array trace(const Operand& x, std::int64_t offset, std::int64_t axis1, std::int64_t axis2) {
  CallSiteScope here(x.site());
  return sum(Operand(diagonal(x, offset, axis1, axis2), x.where()), -1);
}

Array tri(std::int64_t rows, std::optional<std::int64_t> columns, std::int64_t k, DType dtype,
          std::source_location where) {
  CallSiteScope here(CallSite::from(where));
  const Shape shape = {rows, columns.value_or(rows)};
  if (shape[0] < 0 || shape[1] < 0)
    fail<ShapeError>("[tri] expected sizes of 0 or more, got {}{}", to_string(shape), ops::at());
  return ops::run("tri", fmt::format("{} {} {}", to_string(shape), k, name(dtype)), {}, [&](Tracers) {
    const DType type = place_dtype(shape[0] + shape[1]);
    auto places = [&](std::int64_t dimension) {
      return apply_primitive(ir::iota_p(), ir::OpParams::of(ir::IotaParams{type, shape, dimension}),
                             std::span<const Array>())
          .front();
    };
    const Array row = places(0);
    const Array limit = ir::lax::add(
        row, ir::lax::full(row, ir::Scalar::of(std::clamp(k, -shape[0], shape[1])), type, shape));
    return ir::lax::convert_element_type(ir::lax::le(places(1), limit), dtype);
  });
}

std::vector<Array> split_at(const Operand& x, const Integers& indices, std::int64_t axis) {
  CallSiteScope here(x.site());
  const Aval aval = x.aval();
  return cut_before("split_at", x, indices, ops::axis_of("split_at", axis, aval.rank(), aval));
}

std::vector<Array> array_split(const Operand& x, std::int64_t parts, std::int64_t axis) {
  CallSiteScope here(x.site());
  const Aval aval = x.aval();
  const std::int64_t along = ops::axis_of("array_split", axis, aval.rank(), aval);
  if (parts < 1) fail<ShapeError>("[array_split] expected 1 or more parts, got {}{}", parts, ops::at());
  const std::int64_t n = aval.shape[static_cast<std::size_t>(along)];
  Integers indices;
  for (std::int64_t i = 1; i < parts; ++i) indices.push_back(i * (n / parts) + std::min(i, n % parts));
  return cut_before("array_split", x, indices, along);
}

Array hstack(const std::vector<Array>& arrays, std::source_location where) {
  const bool flat = std::ranges::all_of(arrays, [](const Array& x) { return x.ndim() < 2; });
  return concatenate(raised(arrays, 1, false), flat ? 0 : 1, where);
}
Array vstack(const std::vector<Array>& arrays, std::source_location where) {
  return concatenate(raised(arrays, 2, false), 0, where);
}
Array dstack(const std::vector<Array>& arrays, std::source_location where) {
  return concatenate(raised(raised(arrays, 2, false), 3, true), 2, where);
}
Array column_stack(const std::vector<Array>& arrays, std::source_location where) {
  return concatenate(raised(arrays, 2, true), 1, where);
}

Array append(const Operand& x, const Operand& values, std::optional<std::int64_t> axis) {
  CallSiteScope here(x.site());
  if (axis) return concatenate({x.as_array(), values.as_array()}, *axis, x.where());
  return concatenate({ravel(x), ravel(values)}, 0, x.where());
}

std::vector<Array> meshgrid(const std::vector<Array>& arrays, MeshgridOptions options,
                            std::source_location where) {
  CallSiteScope here(CallSite::from(where));
  if (options.indexing != "xy" && options.indexing != "ij")
    fail("[meshgrid] expected indexing \"xy\" or \"ij\", got \"{}\"{}", options.indexing, ops::at());
  Integers dimension;
  Shape grid(arrays.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].ndim() > 1) {
      fail<ShapeError>("[meshgrid] expected arrays of one dimension, got {}{}", to_string(arrays[i].aval()),
                       ops::at());
    }
    const bool swapped = options.indexing == "xy" && arrays.size() > 1 && i < 2;
    dimension.push_back(static_cast<std::int64_t>(swapped ? 1 - i : i));
    grid[static_cast<std::size_t>(dimension[i])] = arrays[i].size();
  }
  return run_operation("meshgrid", fmt::format("{} {}", options.indexing, options.sparse), arrays,
                       [&](Tracers t) {
                         std::vector<Array> results;
                         for (std::size_t i = 0; i < t.size(); ++i) {
                           Shape shape(t.size(), 1);
                           shape[static_cast<std::size_t>(dimension[i])] = t[i].size();
                           const Array line = ir::lax::reshape(t[i], shape);
                           results.push_back(options.sparse ? line : ops::broadcast(line, grid));
                         }
                         return results;
                       });
}

}  // namespace lockstep
