// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/shape.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/indexing_plan.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep {
namespace {

using ops::Tracers;
using Integers = std::vector<std::int64_t>;

std::string text(const Integers& numbers) { return fmt::format("[{}]", fmt::join(numbers, ",")); }

Array reshaped(const std::string& name, const Operand& x, const Shape& shape) {
  if (x.shape() == shape) return x.as_array();
  return ops::run(name, text(shape), {x.as_array()},
                  [&](Tracers t) { return ir::lax::reshape(t[0], shape); });
}

Array transposed(const std::string& name, const Operand& x, const Integers& order) {
  return ops::run(name, text(order), {x.as_array()},
                  [&](Tracers t) { return ir::lax::transpose(t[0], order); });
}

Integers counted(const Operand& x) {
  Integers axes(x.shape().size());
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

void check_count(std::string_view operation, const Operand& x, std::string_view what, std::size_t given) {
  if (given != x.shape().size()) {
    fail<ShapeError>("[{}] expected {} for each of the {} dimensions of {}, got {}{}", operation, what,
                     x.shape().size(), to_string(x.aval()), given, ops::at());
  }
}

std::vector<Array> promoted(std::string_view operation, const std::vector<Array>& arrays) {
  if (arrays.empty()) fail<ShapeError>("[{}] expected at least one array, got none{}", operation, ops::at());
  std::vector<ElementType> types;
  for (const Array& array : arrays) types.push_back(Operand(array).type());
  const ElementType type = promote(operation, types);
  std::vector<Array> converted;
  for (const Array& array : arrays) {
    converted.push_back(array.dtype() == type.dtype
                            ? array
                            : ops::run("astype", fmt::format("{} {}", name(type.dtype), type.weak), {array},
                                       [&](Tracers t) { return ops::convert(t[0], type); }));
  }
  return converted;
}

Array concatenated(const std::string& name, const std::vector<Array>& arrays, std::int64_t axis) {
  return std::move(run_operation(name, fmt::format("axis={}", axis), arrays, [&](Tracers t) {
                     return std::vector<Array>{ir::lax::concatenate(t, axis)};
                   }).front());
}

/// The starts as arrays. A negative one counts from the end: a number is made positive here, an array in
/// placed().
std::vector<Array> starts_of(std::string_view operation, const Operand& x,
                             const std::vector<Operand>& starts) {
  check_count(operation, x, "one start", starts.size());
  std::vector<Array> arrays;
  for (std::size_t d = 0; d < starts.size(); ++d) {
    const Operand& start = starts[d];
    if (!is_integer(start.type().dtype) || !start.shape().empty()) {
      fail<ShapeError>("[{}] expected whole numbers as starts, got {}{}", operation, to_string(start.aval()),
                       ops::at());
    }
    const std::int64_t size = x.shape()[d];
    if (start.is_number()) {
      const Operand place(start.integer() < 0 ? start.integer() + size : start.integer(), start.where());
      arrays.push_back(place.as_array({place_dtype(size), false}));
    } else {
      arrays.push_back(start.as_array());
    }
  }
  return arrays;
}

/// Which of the starts are numbers, as text.
std::string kinds(const std::vector<Operand>& starts) {
  std::string text;
  for (const Operand& start : starts) text += start.is_number() ? 'n' : 'a';
  return text;
}

/// Within a trace: the starts of one dtype, which holds every place in x.
std::vector<Array> placed(const Array& x, Tracers starts, const std::vector<Operand>& given) {
  std::vector<Array> places(starts.begin(), starts.end());
  DType dtype = DType::kI32;
  for (std::size_t d = 0; d < places.size(); ++d) {
    if (!given[d].is_number()) places[d] = ops::wrapped_indices(places[d], x.shape()[d]);
    if (places[d].dtype() == DType::kI64) dtype = DType::kI64;
  }
  for (Array& place : places) place = ir::lax::convert_element_type(place, dtype);
  return places;
}

Array triangle(const std::string& name, const Operand& x, std::int64_t k, bool lower) {
  CallSiteScope here(x.site());
  const Aval aval = x.aval();
  if (aval.rank() < 2) {
    fail<ShapeError>("[{}] expected 2 or more dimensions, got {}{}", name, to_string(aval), ops::at());
  }
  return ops::run(name, fmt::format("k={}", k), {x.as_array()}, [&](Tracers t) {
    const Shape& shape = aval.shape;
    const std::int64_t rows = shape[shape.size() - 2], columns = shape.back();
    const DType places = place_dtype(rows + columns);
    Array row = ir::lax::iota(t[0], places, shape, aval.rank() - 2);
    Array column = ir::lax::iota(t[0], places, shape, aval.rank() - 1);
    Array diagonal =
        ir::lax::add(row, ir::lax::full(row, ir::Scalar::of(std::clamp(k, -rows, columns)), places, shape));
    Array kept = lower ? ir::lax::le(column, diagonal) : ir::lax::ge(column, diagonal);
    return ir::lax::select(kept, t[0], ir::lax::full_like(t[0], 0));
  });
}

}  // namespace

Array reshape(const Operand& x, const Shape& shape) {
  CallSiteScope here(x.site());
  Shape sizes = shape;
  const Aval aval = x.aval();
  const auto unknown = std::ranges::count(sizes, -1);
  std::int64_t known = 1;
  for (std::int64_t size : sizes) known *= size == -1 ? 1 : size;
  if (unknown == 1 && known > 0 && aval.num_elements() % known == 0) {
    *std::ranges::find(sizes, -1) = aval.num_elements() / known;
  }
  if (std::ranges::any_of(sizes, [](std::int64_t size) { return size < 0; }) ||
      num_elements(sizes) != aval.num_elements()) {
    fail<ShapeError>("[reshape] {}, of {} elements, cannot be given shape {}{}; one size may be -1",
                     to_string(aval), aval.num_elements(), to_string(shape), ops::at());
  }
  return reshaped("reshape", x, sizes);
}

Array ravel(const Operand& x) {
  CallSiteScope here(x.site());
  return reshaped("ravel", x, {x.aval().num_elements()});
}

Array transpose(const Operand& x, const Integers& axes) {
  CallSiteScope here(x.site());
  Integers order = counted(x);
  if (axes.empty()) {
    std::ranges::reverse(order);
    return transposed("transpose", x, order);
  }
  check_count("transpose", x, "one axis", axes.size());
  Integers given;
  for (std::int64_t axis : axes) given.push_back(ops::axis_of("transpose", axis, x.aval().rank(), x.aval()));
  if (!std::ranges::is_permutation(given, order)) {
    fail<ShapeError>("[transpose] expected each axis of {} once, got {}{}", to_string(x.aval()), text(axes),
                     ops::at());
  }
  return transposed("transpose", x, given);
}

Array swapaxes(const Operand& x, std::int64_t axis1, std::int64_t axis2) {
  CallSiteScope here(x.site());
  const Aval aval = x.aval();
  Integers order = counted(x);
  std::swap(order[static_cast<std::size_t>(ops::axis_of("swapaxes", axis1, aval.rank(), aval))],
            order[static_cast<std::size_t>(ops::axis_of("swapaxes", axis2, aval.rank(), aval))]);
  return transposed("swapaxes", x, order);
}

Array moveaxis(const Operand& x, std::int64_t from, std::int64_t to) {
  CallSiteScope here(x.site());
  const Aval aval = x.aval();
  from = ops::axis_of("moveaxis", from, aval.rank(), aval);
  to = ops::axis_of("moveaxis", to, aval.rank(), aval);
  Integers order = counted(x);
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  return transposed("moveaxis", x, order);
}

Array expand_dims(const Operand& x, std::int64_t axis) {
  CallSiteScope here(x.site());
  Shape shape = x.shape();
  axis = ops::axis_of("expand_dims", axis, static_cast<std::int64_t>(shape.size()) + 1, x.aval());
  shape.insert(shape.begin() + axis, 1);
  return reshaped("expand_dims", x, shape);
}

Array squeeze(const Operand& x, Axes axis) {
  CallSiteScope here(x.site());
  const Aval aval = x.aval();
  std::vector<bool> goes(aval.shape.size());
  if (!axis.axes()) {
    for (std::size_t i = 0; i < goes.size(); ++i) goes[i] = aval.shape[i] == 1;
  } else {
    for (std::int64_t each : *axis.axes()) {
      const auto i = static_cast<std::size_t>(ops::axis_of("squeeze", each, aval.rank(), aval));
      if (aval.shape[i] != 1) {
        fail<ShapeError>("[squeeze] dimension {} of {} has size {}, not 1{}", i, to_string(aval),
                         aval.shape[i], ops::at());
      }
      goes[i] = true;
    }
  }
  Shape shape;
  for (std::size_t i = 0; i < goes.size(); ++i) {
    if (!goes[i]) shape.push_back(aval.shape[i]);
  }
  return reshaped("squeeze", x, shape);
}

Array broadcast_to(const Operand& x, const Shape& shape) {
  CallSiteScope here(x.site());
  const Aval avals[] = {x.aval(), Aval{x.type().dtype, shape, false, {}}};
  if (ops::broadcast_shapes("broadcast_to", avals) != shape) {
    fail<ShapeError>(
        "[broadcast_to] {} does not broadcast to {}{}; its sizes must be those of the shape, or 1",
        to_string(x.aval()), to_string(shape), ops::at());
  }
  return ops::run("broadcast_to", text(shape), {x.as_array()},
                  [&](Tracers t) { return ops::broadcast(t[0], shape); });
}

Array concatenate(const std::vector<Array>& arrays, std::int64_t axis, std::source_location where) {
  CallSiteScope here(CallSite::from(where));
  std::vector<Array> all = promoted("concatenate", arrays);
  const Aval aval = all[0].aval();
  return concatenated("concatenate", all, ops::axis_of("concatenate", axis, aval.rank(), aval));
}

Array stack(const std::vector<Array>& arrays, std::int64_t axis, std::source_location where) {
  CallSiteScope here(CallSite::from(where));
  std::vector<Array> all = promoted("stack", arrays);
  const Aval aval = all[0].aval();
  axis = ops::axis_of("stack", axis, aval.rank() + 1, aval);
  Shape shape = aval.shape;
  shape.insert(shape.begin() + axis, 1);
  for (const Array& array : all) {
    if (array.shape() != aval.shape) {
      fail<ShapeError>("[stack] expected arrays of one shape, got {} and {}{}", to_string(aval),
                       to_string(array.aval()), ops::at());
    }
  }
  return std::move(run_operation("stack", fmt::format("axis={}", axis), all, [&](Tracers t) {
                     std::vector<Array> rows;
                     for (const Array& array : t) rows.push_back(ir::lax::reshape(array, shape));
                     return std::vector<Array>{ir::lax::concatenate(std::span<const Array>(rows), axis)};
                   }).front());
}

std::vector<Array> split(const Operand& x, std::int64_t parts, std::int64_t axis) {
  CallSiteScope here(x.site());
  const Aval aval = x.aval();
  const auto along = static_cast<std::size_t>(ops::axis_of("split", axis, aval.rank(), aval));
  if (parts < 1 || aval.shape[along] % parts != 0) {
    fail<ShapeError>("[split] dimension {} of {} cannot be cut into {} equal parts{}", along, to_string(aval),
                     parts, ops::at());
  }
  const Array operands[] = {x.as_array()};
  return run_operation("split", fmt::format("{} {}", parts, along), operands, [&](Tracers t) {
    std::vector<Array> results;
    Integers start(aval.shape.size(), 0), limit = aval.shape;
    for (std::int64_t i = 0; i < parts; ++i) {
      start[along] = i * (aval.shape[along] / parts);
      limit[along] = start[along] + aval.shape[along] / parts;
      results.push_back(ir::lax::slice(t[0], start, limit));
    }
    return results;
  });
}

Array slice(const Operand& x, const Integers& starts, const Integers& limits, const Integers& strides) {
  CallSiteScope here(x.site());
  return ops::run("slice", text(starts) + text(limits) + text(strides), {x.as_array()},
                  [&](Tracers t) { return ir::lax::slice(t[0], starts, limits, strides); });
}

Array index(const Operand& x, std::int64_t i) {
  CallSiteScope here(x.site());
  const Aval aval = x.aval();
  if (aval.rank() == 0 || i < -aval.shape[0] || i >= aval.shape[0]) {
    fail<ShapeError>("[index] {} has no element {} in its leading dimension{}", to_string(aval), i,
                     ops::at());
  }
  Integers start(aval.shape.size(), 0), limit = aval.shape;
  start[0] = i < 0 ? i + aval.shape[0] : i;
  limit[0] = start[0] + 1;
  return ops::run("index", fmt::format("{}", start[0]), {x.as_array()}, [&](Tracers t) {
    return ir::lax::reshape(ir::lax::slice(t[0], start, limit),
                            Shape(aval.shape.begin() + 1, aval.shape.end()));
  });
}

Array dynamic_slice(const Operand& x, const std::vector<Operand>& starts, const Shape& sizes) {
  CallSiteScope here(x.site());
  std::vector<Array> operands = starts_of("dynamic_slice", x, starts);
  operands.insert(operands.begin(), x.as_array());
  return std::move(run_operation("dynamic_slice", text(sizes) + kinds(starts), operands, [&](Tracers t) {
                     const std::vector<Array> at = placed(t[0], t.subspan(1), starts);
                     return std::vector<Array>{
                         ir::lax::dynamic_slice(t[0], std::span<const Array>(at), sizes)};
                   }).front());
}

Array dynamic_update_slice(const Operand& x, const Operand& update, const std::vector<Operand>& starts) {
  CallSiteScope here(x.site());
  std::vector<Array> operands = starts_of("dynamic_update_slice", x, starts);
  const Array both[] = {x.as_array(), update.as_array(x.type())};
  operands.insert(operands.begin(), std::begin(both), std::end(both));
  return std::move(run_operation("dynamic_update_slice", kinds(starts), operands, [&](Tracers t) {
                     Array part = ops::convert(t[1], {t[0].dtype(), t[0].aval().weak_type});
                     const std::vector<Array> at = placed(t[0], t.subspan(2), starts);
                     return std::vector<Array>{
                         ir::lax::dynamic_update_slice(t[0], part, std::span<const Array>(at))};
                   }).front());
}

Array pad(const Operand& x, const std::vector<std::pair<std::int64_t, std::int64_t>>& widths,
          const Operand& value) {
  CallSiteScope here(x.site());
  check_count("pad", x, "widths before and after", widths.size());
  Integers low, high;
  for (const auto& [before, behind] : widths) {
    low.push_back(before);
    high.push_back(behind);
  }
  return ops::run("pad", text(low) + text(high), {x.as_array(), value.as_array(x.type())}, [&](Tracers t) {
    Array filler = ir::lax::convert_element_type(t[1], t[0].dtype(), t[0].aval().weak_type);
    return ir::lax::pad(t[0], filler, low, high, Integers(low.size(), 0));
  });
}

Array tril(const Operand& x, std::int64_t k) { return triangle("tril", x, k, true); }
Array triu(const Operand& x, std::int64_t k) { return triangle("triu", x, k, false); }

}  // namespace lockstep
