// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <set>

#include "lockstep/interop/translation.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/gather.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/sort.h"
#include "lockstep/program/primitives/window.h"

namespace lockstep::interop {
namespace {

/// An operation that makes one element of two, as its region says it.
struct Combining {
  const char* name;
  const Primitive& (*two)();
  const Primitive& (*reduce)();
  const Primitive& (*window)();
  const Primitive& (*scatter)();
};

constexpr Combining kCombining[] = {
    {"add", add_p, reduce_sum_p, reduce_window_sum_p, scatter_add_p},
    {"multiply", mul_p, reduce_prod_p, nullptr, scatter_mul_p},
    {"maximum", max_p, reduce_max_p, reduce_window_max_p, scatter_max_p},
    {"minimum", min_p, reduce_min_p, reduce_window_min_p, scatter_min_p},
    {"and", logical_and_p, reduce_and_p, nullptr, nullptr},
    {"or", logical_or_p, reduce_or_p, nullptr, nullptr},
};

/// "vhlo.add_v1" as "add".
std::string plain_name(const Operation& operation) {
  const std::size_t start = operation.name.find('.') + 1;
  return operation.name.substr(start, operation.name.rfind("_v") - start);
}

/// The region's one operation on its two arguments; null where it is something else.
const Combining* combining_of(const Region& region) {
  if (region.arguments.size() != 2 || region.operations.size() != 2) return nullptr;
  const Operation &op = region.operations[0], &end = region.operations[1];
  if (op.results.size() != 1 || end.operands != op.results || op.operands.size() != 2) return nullptr;
  if (!std::ranges::is_permutation(op.operands, region.arguments)) return nullptr;
  for (const Combining& each : kCombining)
    if (plain_name(op) == each.name) return &each;
  return nullptr;
}

/// Whether the value is what the operation leaves alone.
bool is_neutral(const Combining& combining, const std::optional<Scalar>& value, DType dtype) {
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

/// The largest's place: a reduction of values and places together, as JAX writes argmax and argmin.
std::vector<Array> arg_reduce(const Call& call, const std::vector<std::int64_t>& axes) {
  const Region& region = call.region(0);
  bool greater = false, less = false, equal = false;
  for (const Operation& op : region.operations) {
    if (plain_name(op) != "compare") continue;
    const Attribute* direction = op.find("comparison_direction");
    const std::int64_t which = direction == nullptr ? -1 : direction->integer;
    const bool of_values = !op.operands.empty() && op.operands[0] == region.arguments[0] &&
                           op.operands.size() == 2 && op.operands[1] == region.arguments[2];
    greater = greater || (of_values && which == 3);
    less = less || (of_values && which == 5);
    equal = equal || (of_values && which == 0);
  }
  const DType places = call.operand(1).dtype();
  if (axes.size() != 1 || greater == less || !equal || !is_integer(places))
    call.refuse("it reduces several arrays together in a way that is neither argmax nor argmin");
  const Array &x = call.operand(0), &place = call.operand(1);
  const Array which = greater ? lax::argmax(x, axes[0], places) : lax::argmin(x, axes[0], places);
  Shape one = x.shape();
  one[static_cast<std::size_t>(axes[0])] = 1;
  const auto taken = [&](const Array& from) {
    return lax::reshape(
        lax::take_along_axis(from, lax::reshape(which, one), axes[0], GatherScatterMode::kPromiseInBounds),
        call.result().shape);
  };
  return {taken(x), taken(place)};
}

std::vector<Array> reduce(const Call& call) {
  const std::vector<std::int64_t> given = call.numbers("dimensions");
  std::vector<std::int64_t> axes = given;
  std::ranges::sort(axes);
  if (call.operands.size() == 4) return arg_reduce(call, axes);
  const Combining* combining = combining_of(call.region(0));
  if (call.operands.size() != 2 || combining == nullptr)
    call.refuse("it reduces by something else than a sum, product, maximum, minimum, and, or");
  const Array& x = call.operand(0);
  Array reduced = lax::reduce(combining->reduce(), x, axes);
  if (!is_neutral(*combining, call.constants[1], x.dtype())) {
    const Array start = lax::broadcast_in_dim(call.operand(1), reduced.shape(), {});
    reduced = lax::apply1<Array>(combining->two(), {start, reduced});
  }
  return {reduced};
}

std::vector<Array> reduce_window(const Call& call) {
  const Combining* combining = combining_of(call.region(0));
  if (call.operands.size() != 2 || combining == nullptr || combining->window == nullptr ||
      !is_neutral(*combining, call.constants[1], call.operand(0).dtype()))
    call.refuse("it reduces windows by something else than a sum, maximum, minimum");
  const auto rank = static_cast<std::size_t>(call.operand(0).ndim());
  const std::vector<std::int64_t> ones(rank, 1);
  const std::vector<std::int64_t> pads = call.numbers("padding", std::vector<std::int64_t>(2 * rank, 0));
  Padding padding;
  for (std::size_t i = 0; i < rank; ++i) padding.emplace_back(pads.at(2 * i), pads.at(2 * i + 1));
  return {lax::reduce_window(combining->window(), call.operand(0), call.numbers("window_dimensions"),
                             call.numbers("window_strides", ones), padding,
                             call.numbers("base_dilations", ones), call.numbers("window_dilations", ones))};
}

std::vector<Array> scatter(const Call& call) {
  if (call.operands.size() != 3) call.refuse("it scatters into several arrays together");
  const Region& region = call.region(0);
  const bool replaces = region.arguments.size() == 2 && region.operations.size() == 1 &&
                        region.operations[0].operands == std::vector<std::size_t>{region.arguments[1]};
  const Combining* combining = combining_of(region);
  if (!replaces && (combining == nullptr || combining->scatter == nullptr))
    call.refuse("it combines by something else than a sum, product, maximum, minimum, or the update itself");
  const Array& indices = call.operand(1);
  if (call.integer("index_vector_dim") != indices.ndim() - 1)
    call.refuse("its indices are not in the last dimension");
  const ScatterDimensionNumbers numbers{
      call.numbers("update_window_dims"), call.numbers("inserted_window_dims"),
      call.numbers("scatter_dims_to_operand_dims"), call.numbers("input_batching_dims", {}),
      call.numbers("scatter_indices_batching_dims", {})};
  return {lax::scatter_by(replaces ? scatter_p() : combining->scatter(), call.operand(0), indices,
                          call.operand(2), numbers, GatherScatterMode::kFillOrDrop,
                          call.integer("unique_indices", 0) != 0)};
}

/// By the first operand: the region compares its elements, after making NaNs and zeros alike, and nothing
/// else.
std::vector<Array> sort(const Call& call) {
  const Region& region = call.region(0);
  if (region.operations.empty() || region.arguments.size() < 2) call.refuse("it compares nothing");
  std::set<std::size_t> used;
  const Operation* last = nullptr;
  int comparisons = 0;
  for (const Operation& op : region.operations) {
    for (const std::size_t value : op.operands) used.insert(value);
    if (!op.results.empty() && op.results == region.operations.back().operands) last = &op;
    const Attribute* direction = op.find("comparison_direction");
    comparisons += direction != nullptr && (direction->integer == 3 || direction->integer == 5);
  }
  bool others = false;
  for (std::size_t i = 2; i < region.arguments.size(); ++i)
    others = others || used.contains(region.arguments[i]);
  const Attribute* direction = last == nullptr ? nullptr : last->find("comparison_direction");
  if (direction == nullptr || others || comparisons != 1)
    call.refuse("it sorts by something else than the first operand's order");
  const bool descending = direction->integer == 3;
  return lax::sort(call.operands_from(0), call.integer("dimension"), 1, call.integer("is_stable", 0) != 0,
                   descending);
}

}  // namespace

bool is_reduction(std::string_view name) {
  return name == "reduce" || name == "reduce_window" || name == "scatter" || name == "sort";
}

std::vector<Array> reduction_results(const Call& call) {
  if (call.name == "reduce") return reduce(call);
  if (call.name == "reduce_window") return reduce_window(call);
  if (call.name == "scatter") return scatter(call);
  return sort(call);
}

}  // namespace lockstep::interop
