// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/shape.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/gather.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/rules.h"

namespace lockstep::ir {
namespace {

using rules::check_rank;
using rules::keeping;
using rules::with_shape;
using rules::zeros;

/// Where examples start, each elsewhere: an index vector for each example, and the dimensions that its
/// numbers are of. The starts are taken into bounds; dimensions in which only one is possible are left out.
struct EachStart {
  std::optional<Value> indices;  ///< [examples, dimensions]; none without dimensions
  std::vector<std::int64_t> dimensions;
};

EachStart starts_of_each(const BatchCall& call, std::size_t first, const Shape& whole, const Shape& sizes) {
  EachStart out;
  std::vector<Value> columns;
  const DType dtype =
      *std::ranges::max_element(whole) > std::numeric_limits<std::int32_t>::max() ? DType::kI64 : DType::kI32;
  for (std::size_t d = 0; d < whole.size(); ++d) {
    const std::int64_t last = whole[d] - sizes[d];
    if (last == 0) continue;
    Value start = call.inputs[first + d];
    if (!call.batched[first + d]) start = rules::broadcast_leading(start, call.size);
    // In its own dtype first, which may hold more or fewer numbers than the indices'.
    const Aval aval = start.aval();
    const Scalar most = rules::extreme(aval.dtype, 1);
    if (most.integer < 0 || most.integer > last)
      start = lax::min(start, lax::full(start, Scalar::of(last), aval.dtype, aval.shape));
    start = lax::max(start, lax::full(start, Scalar::of(0), aval.dtype, aval.shape));
    start = lax::convert_element_type(start, dtype);
    columns.push_back(lax::reshape(start, {call.size, 1}));
    out.dimensions.push_back(static_cast<std::int64_t>(d));
  }
  if (!columns.empty()) out.indices = lax::concatenate(std::span<const Value>(columns), 1);
  return out;
}

/// 0, 1, ..., n - 1, each moved by `by`.
std::vector<std::int64_t> counted(std::size_t n, std::int64_t by) {
  std::vector<std::int64_t> out(n);
  std::iota(out.begin(), out.end(), by);
  return out;
}

std::vector<std::int64_t> moved(std::vector<std::int64_t> numbers, std::int64_t by) {
  for (std::int64_t& number : numbers) number += by;
  return numbers;
}

/// dynamic_slice with a different start for each example: a gather.
Value slice_of_each(const BatchCall& call) {
  const Shape& sizes = call.params.as<DynamicSliceParams>().slice_sizes;
  const bool batched = call.batched[0];
  const Value& x = call.inputs[0];
  const Shape whole(x.aval().shape.begin() + (batched ? 1 : 0), x.aval().shape.end());
  const EachStart starts = starts_of_each(call, 1, whole, sizes);
  if (!starts.indices) return batched ? x : rules::broadcast_leading(x, call.size);
  GatherDimensionNumbers numbers{counted(sizes.size(), 1), {}, moved(starts.dimensions, batched ? 1 : 0)};
  if (batched) numbers.operand_batching_dims = numbers.start_indices_batching_dims = {0};
  return lax::gather(x, *starts.indices, numbers, batched ? rules::prepended(1, sizes) : sizes,
                     GatherScatterMode::kPromiseInBounds);
}

/// dynamic_update_slice with a different start for each example: a scatter.
Value update_of_each(const BatchCall& call) {
  auto each = [&](std::size_t i) {
    return call.batched[i] ? call.inputs[i] : rules::broadcast_leading(call.inputs[i], call.size);
  };
  const Value x = each(0), update = each(1);
  const Shape whole(x.aval().shape.begin() + 1, x.aval().shape.end()),
      sizes(update.aval().shape.begin() + 1, update.aval().shape.end());
  const EachStart starts = starts_of_each(call, 2, whole, sizes);
  if (!starts.indices) return update;
  return lax::scatter(x, *starts.indices, update,
                      {counted(sizes.size(), 1), {}, moved(starts.dimensions, 1), {0}, {0}},
                      GatherScatterMode::kPromiseInBounds, true);
}

std::vector<Value> starts_of(std::span<const Value> inputs, std::size_t first) {
  return {inputs.begin() + static_cast<std::ptrdiff_t>(first), inputs.end()};
}

bool any_from(std::span<const bool> flags, std::size_t first) {
  return std::ranges::find(flags.begin() + static_cast<std::ptrdiff_t>(first), flags.end(), true) !=
         flags.end();
}

void check_starts(std::span<const Aval> inputs, std::size_t first) {
  check_rank(inputs.size() - first, inputs[0], "one start");
  for (const Aval& start : inputs.subspan(first)) {
    if (!start.shape.empty() || !is_integer(start.dtype)) {
      fail<ShapeError>("expected integer scalars as starts, got {}", to_string(start));
    }
    if (start.dtype != inputs[first].dtype)
      fail<DTypeError>("expected starts of one dtype, got {} and {}", to_string(inputs[first]),
                       to_string(start));
  }
}

/// A dimension of which a slice takes a part, whose start values decide, and the factor that splits it.
struct StartedDim {
  std::size_t dimension;
  int factor;
  std::int64_t size;
};

/// The elements of x at these positions of a dimension, any values at positions that x does not have; and
/// whether x has them, in the shape of the result.
std::pair<Value, Value> taken_along(const Value& x, std::size_t dimension, const Value& places) {
  const Shape& shape = x.aval().shape;
  const auto d = static_cast<std::int64_t>(dimension);
  GatherDimensionNumbers numbers = {{}, {d}, {d}};
  for (std::int64_t other = 0; other < static_cast<std::int64_t>(shape.size()); ++other)
    if (other != d) numbers.offset_dims.push_back(other);
  Shape sizes = shape;
  sizes[dimension] = 1;
  const std::int64_t count = places.aval().shape[0];
  const Value indices = lax::reshape(places, Shape{count, 1});
  const Value taken = lax::gather(x, indices, numbers, sizes, GatherScatterMode::kClip);
  const Value has = lax::internal::within(indices, {shape[dimension] - 1});
  return {taken, lax::broadcast_in_dim(has, taken.aval().shape, {d})};
}

/// start, start + 1, ...
Value places_from(const Value& start, std::int64_t count) {
  const DType dtype = start.aval().dtype;
  return lax::add(lax::iota(start, dtype, {count}, 0), lax::broadcast_in_dim(start, {count}, {}));
}

/// Where a slice of `count` begins in a dimension of this size, as XLA takes it.
Value start_within(const Value& start, std::int64_t size, std::int64_t count) {
  const Value wide = lax::convert_element_type(start, place_dtype(size));
  return lax::max(lax::min(wide, lax::full_like(wide, static_cast<double>(size - count))),
                  lax::full_like(wide, 0));
}

/// A device's contribution to a dynamic_slice whose operand is split along a sliced dimension: zeros except
/// for elements of its part.
std::vector<Value> slice_of_part(const OpParams& local, std::span<const Value> operands,
                                 const PartPlaces& places, const std::vector<StartedDim>& dims) {
  const Shape& sizes = local.as<DynamicSliceParams>().slice_sizes;
  std::vector<Value> starts = starts_of(operands, 1);
  Shape first = sizes;
  for (const StartedDim& dim : dims) {
    if (!places.is_split(dim.factor)) continue;
    first[dim.dimension] = operands[0].aval().shape[dim.dimension];
    starts[dim.dimension] = lax::full_like(starts[dim.dimension], 0);
  }
  Value x = lax::dynamic_slice(operands[0], std::span<const Value>(starts), first);
  std::optional<Value> is_here;
  for (const StartedDim& dim : dims) {
    if (!places.is_split(dim.factor)) continue;
    const Value start = start_within(operands[1 + dim.dimension], dim.size, sizes[dim.dimension]);
    const Value from = lax::sub(start, places.start(dim.factor, start.aval().dtype));
    auto [taken, has] = taken_along(x, dim.dimension, places_from(from, sizes[dim.dimension]));
    x = taken;
    if (is_here) {
      // The mask has the shape that x had before.
      is_here = taken_along(*is_here, dim.dimension, places_from(from, sizes[dim.dimension])).first;
    }
    is_here = is_here ? lax::logical_and(*is_here, has) : has;
  }
  return {is_here ? lax::select(*is_here, x, lax::full_like(x, 0)) : x};
}

/// A device's part of a dynamic_update_slice whose operand is split along an updated dimension.
std::vector<Value> update_of_part(std::span<const Value> operands, const PartPlaces& places,
                                  const std::vector<StartedDim>& dims) {
  const Value& x = operands[0];
  Value update = operands[1];
  std::vector<Value> starts = starts_of(operands, 2);
  Shape sizes = update.aval().shape;
  std::optional<Value> is_new;
  for (const StartedDim& dim : dims) {
    if (!places.is_split(dim.factor)) continue;
    const std::size_t d = dim.dimension;
    const Value start = start_within(starts[d], dim.size, update.aval().shape[d]);
    const Value from = lax::sub(places.start(dim.factor, start.aval().dtype), start);
    sizes[d] = x.aval().shape[d];
    auto [taken, has] = taken_along(update, d, places_from(from, sizes[d]));
    if (is_new) is_new = taken_along(*is_new, d, places_from(from, sizes[d])).first;
    is_new = is_new ? lax::logical_and(*is_new, has) : has;
    update = taken;
    starts[d] = lax::full_like(starts[d], 0);
  }
  if (is_new) {
    const Value before = lax::dynamic_slice(x, std::span<const Value>(starts), sizes);
    update = lax::select(*is_new, update, before);
  }
  return {lax::dynamic_update_slice(x, update, std::span<const Value>(starts))};
}

}  // namespace

const Primitive& dynamic_slice_p() {
  static const Primitive p = {
      .name = "dynamic_slice",
      .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
        const Shape& sizes = params.as<DynamicSliceParams>().slice_sizes;
        check_rank(sizes.size(), inputs[0], "one size");
        check_starts(inputs, 1);
        for (std::size_t d = 0; d < sizes.size(); ++d) {
          if (sizes[d] < 0 || sizes[d] > inputs[0].shape[d]) {
            fail<ShapeError>("expected sizes within {}, got {}", to_string(inputs[0]), to_string(sizes));
          }
        }
        return {with_shape(inputs[0], sizes)};
      },
      .sharding =
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams&) {
            ShardingRule rule = keeping(
                inputs, outputs, [&](std::size_t d) { return inputs[0].shape[d] == outputs[0].shape[d]; });
            rule.localize = [](const OpParams&, const std::vector<Shape>&,
                               const std::vector<Shape>& results) {
              return OpParams::of(DynamicSliceParams{results[0]});
            };
            std::vector<StartedDim> dims;
            for (std::size_t d = 0; d < outputs[0].shape.size(); ++d) {
              if (inputs[0].shape[d] == outputs[0].shape[d] || outputs[0].shape[d] == 0) continue;
              const bool bools = inputs[0].dtype == DType::kBool;
              rule.operands[0][d] = static_cast<int>(rule.factors.size());
              rule.factors.push_back(
                  {inputs[0].shape[d], bools ? ShardingRule::Combine::kMax : ShardingRule::Combine::kSum});
              dims.push_back({d, rule.operands[0][d], inputs[0].shape[d]});
            }
            if (dims.empty()) return rule;
            rule.write = [dims](const OpParams& local, std::span<const Value> operands,
                                const PartPlaces& places) {
              return slice_of_part(local, operands, places, dims);
            };
            return rule;
          },
      .jvp = rules::linear_jvp(dynamic_slice_p),
      .transpose = [](const TransposeCall& call) -> Tangents {
        const Value& ct = *call.cotangents[0];
        std::vector<Value> starts;
        for (const TransposeOperand& operand : call.operands.subspan(1)) starts.push_back(*operand.value);
        Tangents out(call.operands.size());
        out[0] =
            lax::dynamic_update_slice(zeros(ct, call.operands[0].aval), ct, std::span<const Value>(starts));
        return out;
      },
      .batching = [](const BatchCall& call) -> std::vector<Value> {
        if (any_from(call.batched, 1)) return {slice_of_each(call)};
        std::vector<Value> starts = starts_of(call.inputs, 1);
        starts.insert(starts.begin(), lax::full(call.inputs[0], Scalar::of(0),
                                                starts.empty() ? DType::kI32 : starts[0].aval().dtype, {}));
        return {lax::dynamic_slice(
            call.inputs[0], std::span<const Value>(starts),
            rules::prepended(call.size, call.params.as<DynamicSliceParams>().slice_sizes))};
      },
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const Shape& sizes = e.params.as<DynamicSliceParams>().slice_sizes;
        std::vector<std::string> operands = {out.operand(e, 0)}, types = {out.operand_type(e, 0)};
        for (std::size_t d = 0; d < sizes.size(); ++d) {
          const DType dtype = out.operand_aval(e, 1 + d).dtype;
          const std::int64_t last = out.operand_aval(e, 0).shape[d] - sizes[d];
          operands.push_back(rules::within_bounds(out, out.operand(e, 1 + d), dtype, {}, {last}));
          types.push_back(out.operand_type(e, 1 + d));
        }
        return {out.op("stablehlo.dynamic_slice", operands, types, out.result_type(e),
                       "slice_sizes = " + mlir_array(sizes))};
      },
      .linear = {.together = {{0}}, .moves = true},
  };
  return p;
}

const Primitive& dynamic_update_slice_p() {
  static const Primitive p = {
      .name = "dynamic_update_slice",
      .shape = [](std::span<const Aval> inputs, const OpParams&) -> std::vector<Aval> {
        rules::same_dtypes(inputs.first(2));
        check_rank(inputs[1].shape.size(), inputs[0], "one size of the update");
        check_starts(inputs, 2);
        for (std::size_t d = 0; d < inputs[0].shape.size(); ++d) {
          if (inputs[1].shape[d] > inputs[0].shape[d]) {
            fail<ShapeError>("expected an update within {}, got {}", to_string(inputs[0]),
                             to_string(inputs[1]));
          }
        }
        return {with_shape(inputs[0], inputs[0].shape)};
      },
      .sharding =
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams&) {
            ShardingRule rule = keeping(
                inputs, outputs, [&](std::size_t d) { return inputs[0].shape[d] == inputs[1].shape[d]; });
            rule.operands[1] = rule.operands[0];
            std::vector<StartedDim> dims;
            for (std::size_t d = 0; d < inputs[0].shape.size(); ++d) {
              if (inputs[0].shape[d] == inputs[1].shape[d] || inputs[1].shape[d] == 0) continue;
              rule.operands[0][d] = rule.results[0][d] = static_cast<int>(rule.factors.size());
              rule.factors.push_back({inputs[0].shape[d]});
              dims.push_back({d, rule.operands[0][d], inputs[0].shape[d]});
            }
            if (dims.empty()) return rule;
            rule.write = [dims](const OpParams&, std::span<const Value> operands, const PartPlaces& places) {
              return update_of_part(operands, places, dims);
            };
            return rule;
          },
      .jvp = [](const JvpCall& call) -> Tangents {
        if (!call.tangents[0] && !call.tangents[1]) return {std::nullopt};
        Value x = call.tangents[0] ? *call.tangents[0] : zeros(call.inputs[0], call.inputs[0].aval());
        Value update = call.tangents[1] ? *call.tangents[1] : zeros(call.inputs[1], call.inputs[1].aval());
        std::vector<Value> starts = starts_of(call.inputs, 2);
        return {lax::dynamic_update_slice(x, update, std::span<const Value>(starts))};
      },
      .transpose = [](const TransposeCall& call) -> Tangents {
        const Value& ct = *call.cotangents[0];
        std::vector<Value> starts;
        for (const TransposeOperand& operand : call.operands.subspan(2)) starts.push_back(*operand.value);
        Tangents out(call.operands.size());
        if (call.operands[0].linear()) {
          out[0] =
              lax::dynamic_update_slice(ct, zeros(ct, call.operands[1].aval), std::span<const Value>(starts));
        }
        if (call.operands[1].linear()) {
          out[1] = lax::dynamic_slice(ct, std::span<const Value>(starts), call.operands[1].aval.shape);
        }
        return out;
      },
      .batching = [](const BatchCall& call) -> std::vector<Value> {
        if (any_from(call.batched, 2)) return {update_of_each(call)};
        auto whole = [&](std::size_t i) {
          return call.batched[i] ? call.inputs[i] : rules::broadcast_leading(call.inputs[i], call.size);
        };
        std::vector<Value> starts = starts_of(call.inputs, 2);
        starts.insert(starts.begin(), lax::full(call.inputs[0], Scalar::of(0),
                                                starts.empty() ? DType::kI32 : starts[0].aval().dtype, {}));
        return {lax::dynamic_update_slice(whole(0), whole(1), std::span<const Value>(starts))};
      },
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        std::vector<std::string> types;
        for (std::size_t i = 0; i < e.inputs.size(); ++i) types.push_back(out.operand_type(e, i));
        return {out.op("stablehlo.dynamic_update_slice", out.operands_of_update(e, 1), types,
                       out.result_type(e))};
      },
      .linear = {.together = {{0, 1}}, .moves = true},
  };
  return p;
}

}  // namespace lockstep::ir
