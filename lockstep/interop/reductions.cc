// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <map>

#include "lockstep/base/fail.h"
#include "lockstep/interop/translation.h"
#include "lockstep/jit/control_flow.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/gather.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/window.h"

namespace lockstep::interop {
namespace {

constexpr Combining kCombining[] = {
    {"add", ir::add_p, ir::reduce_sum_p, ir::reduce_window_sum_p, ir::cumsum_p, ir::scatter_add_p},
    {"multiply", ir::mul_p, ir::reduce_prod_p, nullptr, ir::cumprod_p, ir::scatter_mul_p},
    {"maximum", ir::max_p, ir::reduce_max_p, ir::reduce_window_max_p, ir::cummax_p, ir::scatter_max_p},
    {"minimum", ir::min_p, ir::reduce_min_p, ir::reduce_window_min_p, ir::cummin_p, ir::scatter_min_p},
    {"and", ir::logical_and_p, ir::reduce_and_p, nullptr, nullptr, nullptr},
    {"or", ir::logical_or_p, ir::reduce_or_p, nullptr, nullptr, nullptr},
};
constexpr std::size_t kMaximum = 2, kMinimum = 3;

}  // namespace

std::string operation_name(const Operation& operation) {
  const std::size_t start = operation.name.find('.') + 1;
  return operation.name.substr(start, operation.name.rfind("_v") - start);
}

const Combining* combining_of(const Region& region) {
  if (region.arguments.size() != 2 || region.operations.size() != 2) return nullptr;
  const Operation &op = region.operations[0], &end = region.operations[1];
  if (op.results.size() != 1 || end.operands != op.results || op.operands.size() != 2) return nullptr;
  if (!std::ranges::is_permutation(op.operands, region.arguments)) return nullptr;
  for (const Combining& each : kCombining)
    if (operation_name(op) == each.name) return &each;
  return nullptr;
}

bool is_neutral(const Combining& combining, const std::optional<ir::Scalar>& value, DType dtype) {
  if (!value) return false;
  const std::string_view name = combining.name;
  const bool inexact = is_inexact(dtype);
  if (name == "add") return value->real == 0;
  if (name == "multiply") return value->real == 1;
  if (name == "and") return dtype == DType::kBool && value->integer == 1;
  if (name == "or") return value->integer == 0;
  if (inexact) return value->real == (name == "maximum" ? -1 : 1) * std::numeric_limits<double>::infinity();
  if (dtype == DType::kBool) return value->integer == (name == "maximum" ? 0 : 1);
  const std::int64_t v = value->integer;
  return name == "maximum" ? !holds(dtype, v - 1) || v == std::numeric_limits<std::int64_t>::min()
                           : !holds(dtype, v + 1) || v == std::numeric_limits<std::int64_t>::max();
}

std::vector<Array> combined(const Call& call, std::span<const Array> first, std::span<const Array> second) {
  std::vector<Array> both(first.begin(), first.end());
  both.insert(both.end(), second.begin(), second.end());
  return call.module.for_each_element(call.region(0), both);
}

std::vector<Array> sliced(std::span<const Array> arrays, std::int64_t dimension, std::int64_t start,
                          std::int64_t count, std::int64_t stride) {
  std::vector<Array> parts;
  for (const Array& x : arrays) {
    Shape from(x.shape().size(), 0), to = x.shape(), steps(x.shape().size(), 1);
    const auto d = static_cast<std::size_t>(dimension);
    from[d] = start;
    to[d] = count == 0 ? start : start + (count - 1) * stride + 1;
    steps[d] = stride;
    parts.push_back(ir::lax::slice(x, from, to, steps));
  }
  return parts;
}

namespace {

Shape shape_without(Shape shape, std::size_t axis) {
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return shape;
}

/// Whether a region takes the larger value, if it is an argmax's or argmin's as JAX writes it. Of values x
/// and y at places i and j, the region takes x if it is larger (smaller) or NaN, and i if it takes x, or if x
/// equals y and i is less.
std::optional<bool> takes_largest(const Region& region) {
  std::map<std::size_t, std::string> terms;
  const char* const names[] = {"x", "i", "y", "j"};
  if (region.arguments.size() != 4 || region.operations.empty()) return std::nullopt;
  for (std::size_t k = 0; k < 4; ++k) terms[region.arguments[k]] = names[k];
  constexpr const char* kDirections[] = {"==", "!=", ">=", ">", "<=", "<"};
  std::vector<std::string> returned;
  for (const Operation& op : region.operations) {
    std::string text = operation_name(op);
    const Attribute* direction = op.find("comparison_direction");
    if (direction != nullptr && direction->integer >= 0 && direction->integer < 6)
      text = kDirections[direction->integer];
    text = fmt::format("({}", text);
    for (const std::size_t value : op.operands) {
      const auto found = terms.find(value);
      const std::string term = found == terms.end() ? "?" : found->second;
      text += " " + term;
      if (&op == &region.operations.back()) returned.push_back(term);
    }
    if (op.results.size() == 1) terms[op.results[0]] = text + ")";
  }
  for (const bool largest : {true, false}) {
    const std::string value = fmt::format("(or ({} x y) (!= x x))", largest ? ">" : "<"),
                      plain = fmt::format("({} x y)", largest ? ">" : "<");
    for (const std::string& taken : {value, plain}) {
      if (returned ==
          std::vector<std::string>{fmt::format("(select {} x y)", taken),
                                   fmt::format("(select (or {} (and (== x y) (< i j))) i j)", taken)})
        return largest;
    }
  }
  return std::nullopt;
}

bool is_arg_reduction(const Call& call, const std::vector<std::int64_t>& axes) {
  const std::optional<bool> largest = takes_largest(call.region(0));
  if (!largest || axes.size() != 1 || call.operand(0).shape()[static_cast<std::size_t>(axes[0])] == 0)
    return false;
  const Operation* places = call.producers[1];
  return places != nullptr && operation_name(*places) == "iota" &&
         places->find("iota_dimension")->integer == axes[0] &&
         is_neutral(kCombining[*largest ? kMaximum : kMinimum], call.constants[2], call.operand(0).dtype());
}

/// The largest's place: a reduction of values and places together, as JAX writes argmax and argmin.
std::vector<Array> arg_reduce(const Call& call, const std::vector<std::int64_t>& axes) {
  const bool greater = *takes_largest(call.region(0));
  const DType places = call.operand(1).dtype();
  const Array& x = call.operand(0);
  const Array which = greater ? ir::lax::argmax(x, axes[0], places) : ir::lax::argmin(x, axes[0], places);
  Shape one = x.shape();
  one[static_cast<std::size_t>(axes[0])] = 1;
  return {ir::lax::reshape(ir::lax::take_along_axis(x, ir::lax::reshape(which, one), axes[0],
                                                    GatherScatterMode::kPromiseInBounds),
                           call.result().shape),
          which};
}

/// Pairs of neighbours become one by what the region says, until one is left: in the order of the elements,
/// so that the region need not be commutative.
std::vector<Array> reduce_by_region(const Call& call, const std::vector<std::int64_t>& axes) {
  const std::size_t count = call.operands.size() / 2;
  if (call.operands.size() != 2 * count || count == 0) call.refuse("it has a start for some arrays only");
  std::vector<Array> arrays(call.operands.begin(),
                            call.operands.begin() + static_cast<std::ptrdiff_t>(count)),
      starts;
  Shape shape = arrays[0].shape();
  const bool empty = num_elements(shape) == 0;
  for (std::size_t a = axes.size(); a-- > 0;) {
    const auto axis = static_cast<std::size_t>(axes[a]);
    for (std::int64_t size = shape[axis]; size > 1 && !empty; size = (size + 1) / 2) {
      const std::int64_t pairs = size / 2;
      std::vector<Array> joined =
          combined(call, sliced(arrays, axes[a], 0, pairs, 2), sliced(arrays, axes[a], 1, pairs, 2));
      if (size % 2 == 1) {
        const std::vector<Array> last = sliced(arrays, axes[a], size - 1, 1);
        for (std::size_t i = 0; i < count; ++i) {
          const Array both[] = {joined[i], last[i]};
          joined[i] = ir::lax::concatenate(std::span<const Array>(both), axes[a]);
        }
      }
      arrays = std::move(joined);
    }
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
    if (!empty)
      for (Array& x : arrays) x = ir::lax::reshape(x, shape_without(x.shape(), axis));
  }
  for (std::size_t i = 0; i < count; ++i)
    starts.push_back(ir::lax::broadcast_in_dim(call.operand(count + i), shape, {}));
  return empty ? starts : combined(call, starts, arrays);
}

std::vector<Array> reduce(const Call& call) {
  std::vector<std::int64_t> axes = call.numbers("dimensions");
  std::ranges::sort(axes);
  if (call.operands.size() == 4 && is_arg_reduction(call, axes)) return arg_reduce(call, axes);
  const Combining* combining = combining_of(call.region(0));
  if (call.operands.size() != 2 || combining == nullptr || combining->reduce == nullptr)
    return reduce_by_region(call, axes);
  const Array& x = call.operand(0);
  Array reduced = ir::lax::reduce(combining->reduce(), x, axes);
  if (!is_neutral(*combining, call.constants[1], x.dtype())) {
    const Array start = ir::lax::broadcast_in_dim(call.operand(1), reduced.shape(), {});
    reduced = ir::lax::apply1<Array>(combining->two(), {start, reduced});
  }
  return {reduced};
}

bool uses(const Region& region, std::size_t value) {
  return std::ranges::any_of(region.operations, [&](const Operation& op) {
    return std::ranges::count(op.operands, value) > 0 ||
           std::ranges::any_of(op.regions, [&](const Region& inner) { return uses(inner, value); });
  });
}

/// Each element becomes what the region makes of it, as often as there are updates of it.
std::vector<Array> scatter_by_function(const Call& call, const Array& indices,
                                       const ir::ScatterDimensionNumbers& numbers) {
  const Array& x = call.operand(0);
  const auto numbers_of = [&](const Array& like, std::int64_t number) {
    return ir::lax::full(like, ir::Scalar::of(number), DType::kI32, like.shape());
  };
  const Array often = ir::lax::scatter_by(ir::scatter_add_p(), numbers_of(x, 0), indices,
                                          numbers_of(call.operand(2), 1), numbers);
  const std::vector<Array> all = while_loop(
      [&](const std::vector<Array>& carry) -> Array { return any(carry[1] > 0); },
      [&](const std::vector<Array>& carry) -> std::vector<Array> {
        // The update is not looked at; x stands for it, being of the elements' shape.
        const Array made =
            call.module.for_each_element(call.region(0), std::vector<Array>{carry[0], carry[0]}).at(0);
        return {ir::lax::select(ir::lax::gt(carry[1], numbers_of(x, 0)), made, carry[0]),
                ir::lax::sub(carry[1], numbers_of(x, 1))};
      },
      std::vector<Array>{x, often});
  return {all[0]};
}

std::vector<Array> scatter(const Call& call) {
  if (call.operands.size() != 3) call.refuse("it scatters into several arrays at once");
  const Region& region = call.region(0);
  const bool replaces = region.arguments.size() == 2 && region.operations.size() == 1 &&
                        region.operations[0].operands == std::vector<std::size_t>{region.arguments[1]};
  const Combining* combining = combining_of(region);
  const bool of_old_alone = region.arguments.size() == 2 && !uses(region, region.arguments[1]);
  if (!replaces && !of_old_alone && (combining == nullptr || combining->scatter == nullptr)) {
    call.refuse(
        "it combines element and update with a function other than a sum, product, maximum or minimum");
  }
  const Array& indices = call.operand(1);
  if (call.integer("index_vector_dim") != indices.ndim() - 1)
    call.refuse("its indices are not in the last dimension");
  const ir::ScatterDimensionNumbers numbers{
      call.numbers("update_window_dims"), call.numbers("inserted_window_dims"),
      call.numbers("scatter_dims_to_operand_dims"), call.numbers("input_batching_dims", {}),
      call.numbers("scatter_indices_batching_dims", {})};
  if (of_old_alone) return scatter_by_function(call, indices, numbers);
  return {ir::lax::scatter_by(replaces ? ir::scatter_p() : combining->scatter(), call.operand(0), indices,
                              call.operand(2), numbers, GatherScatterMode::kFillOrDrop,
                              call.integer("unique_indices", 0) != 0)};
}

std::vector<Array> sort(const Call& call) {
  return sorted_by(call, call.region(0), call.operands, call.integer("dimension"),
                   call.integer("is_stable", 0) != 0);
}

}  // namespace

bool is_reduction(std::string_view name) {
  return name == "reduce" || name == "reduce_window" || name == "select_and_scatter" || name == "scatter" ||
         name == "sort";
}

std::vector<Array> reduction_results(const Call& call) {
  if (call.name == "reduce") return reduce(call);
  if (call.name == "reduce_window") return reduce_window(call);
  if (call.name == "select_and_scatter") return select_and_scatter(call);
  if (call.name == "scatter") return scatter(call);
  return sort(call);
}

}  // namespace lockstep::interop
