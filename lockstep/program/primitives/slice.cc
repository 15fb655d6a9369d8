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

namespace lockstep {
namespace {

using rules::check_rank;
using rules::keeping;
using rules::with_shape;
using rules::zeros;
constexpr int kWhole = ShardingRule::kWhole;

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

/// dynamic_slice where each example starts elsewhere: a gather.
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

/// dynamic_update_slice where each example starts elsewhere: a scatter.
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

}  // namespace

namespace {

/// A dimension of which a slice takes a part, whose start values decide, and the factor that splits it.
struct StartedDim {
  std::size_t dimension;
  int factor;
  std::int64_t size;
};

/// The elements of x at these places of a dimension, one for each; of places that x does not have, any. And
/// whether x has them, in the shape of what is taken.
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

/// What a device has to give of a dynamic_slice whose operand is split where it is cut: zeros but for what
/// its part has.
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
      // Of the shape that x had before.
      is_here = taken_along(*is_here, dim.dimension, places_from(from, sizes[dim.dimension])).first;
    }
    is_here = is_here ? lax::logical_and(*is_here, has) : has;
  }
  return {is_here ? lax::select(*is_here, x, lax::full_like(x, 0)) : x};
}

/// What a device has of a dynamic_update_slice whose operand is split where the update goes.
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

const Primitive& slice_p() {
  static const Primitive p = {
      .name = "slice",
      .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
        const auto& s = params.as<SliceParams>();
        check_rank(s.start_indices.size(), inputs[0], "one start");
        check_rank(s.limit_indices.size(), inputs[0], "one limit");
        check_rank(s.strides.size(), inputs[0], "one stride");
        Shape shape;
        for (std::size_t d = 0; d < inputs[0].shape.size(); ++d) {
          std::int64_t start = s.start_indices[d], limit = s.limit_indices[d], stride = s.strides[d];
          if (start < 0 || limit < start || limit > inputs[0].shape[d] || stride < 1) {
            fail<ShapeError>(
                "expected 0 <= start <= limit <= {} and a positive stride in dimension {} of {}, got "
                "{}:{}:{}",
                inputs[0].shape[d], d, to_string(inputs[0]), start, limit, stride);
          }
          shape.push_back((limit - start + stride - 1) / stride);
        }
        return {with_shape(inputs[0], shape)};
      },
      .sharding =
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams&) {
            ShardingRule rule = keeping(
                inputs, outputs, [&](std::size_t d) { return inputs[0].shape[d] == outputs[0].shape[d]; });
            rule.localize = [dims = rule.operands[0]](const OpParams& params,
                                                      const std::vector<Shape>& operands,
                                                      const std::vector<Shape>&) {
              SliceParams s = params.as<SliceParams>();
              for (std::size_t d = 0; d < dims.size(); ++d) {
                if (dims[d] != kWhole) s.limit_indices[d] = operands[0][d];
              }
              return OpParams::of(s);
            };
            return rule;
          },
      .jvp = rules::linear_jvp(slice_p),
      .transpose = [](const TransposeCall& call) -> Tangents {
        const auto& s = call.params.as<SliceParams>();
        const Shape &from = call.operands[0].aval.shape, &to = call.results[0].shape;
        std::vector<std::int64_t> high, interior;
        for (std::size_t d = 0; d < from.size(); ++d) {
          std::int64_t covered = to[d] == 0 ? 0 : (to[d] - 1) * s.strides[d] + 1;
          high.push_back(from[d] - s.start_indices[d] - covered);
          interior.push_back(s.strides[d] - 1);
        }
        const Value& ct = *call.cotangents[0];
        return {lax::pad(ct, zeros(ct, {ct.aval().dtype, {}}), s.start_indices, high, interior)};
      },
      .batching = [](const BatchCall& call) -> std::vector<Value> {
        const auto& s = call.params.as<SliceParams>();
        return {lax::slice(call.inputs[0], rules::prepended(0, s.start_indices),
                           rules::prepended(call.size, s.limit_indices), rules::prepended(1, s.strides))};
      },
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const auto& s = e.params.as<SliceParams>();
        return {out.op(
            "stablehlo.slice", e,
            fmt::format("start_indices = {}, limit_indices = {}, strides = {}", mlir_array(s.start_indices),
                        mlir_array(s.limit_indices), mlir_array(s.strides)))};
      },
      .linear = {.together = {{0}}, .moves = true},
  };
  return p;
}

const Primitive& pad_p() {
  static const Primitive p = {
      .name = "pad",
      .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
        const auto& pad = params.as<PadParams>();
        rules::same_dtypes(inputs);
        if (!inputs[1].shape.empty())
          fail<ShapeError>("expected a scalar to pad with, got {}", to_string(inputs[1]));
        check_rank(pad.low.size(), inputs[0], "a padding before");
        check_rank(pad.high.size(), inputs[0], "a padding behind");
        check_rank(pad.interior.size(), inputs[0], "a padding between");
        Shape shape;
        for (std::size_t d = 0; d < inputs[0].shape.size(); ++d) {
          std::int64_t size = inputs[0].shape[d],
                       between = std::max<std::int64_t>(size - 1, 0) * pad.interior[d];
          std::int64_t out = pad.low[d] + size + between + pad.high[d];
          if (out < 0 || pad.interior[d] < 0) {
            fail<ShapeError>("padding dimension {} of {} by low={} high={} interior={} leaves no valid size",
                             d, to_string(inputs[0]), pad.low[d], pad.high[d], pad.interior[d]);
          }
          shape.push_back(out);
        }
        return {with_shape(inputs[0], shape)};
      },
      .sharding =
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params) {
            const auto& pad = params.as<PadParams>();
            return keeping(inputs, outputs, [&](std::size_t d) {
              return pad.low[d] == 0 && pad.high[d] == 0 && pad.interior[d] == 0;
            });
          },
      .jvp = [](const JvpCall& call) -> Tangents {
        if (!call.tangents[0] && !call.tangents[1]) return {std::nullopt};
        Value x = call.tangents[0] ? *call.tangents[0] : zeros(call.inputs[0], call.inputs[0].aval());
        Value value = call.tangents[1] ? *call.tangents[1] : zeros(call.inputs[1], call.inputs[1].aval());
        const auto& pad = call.params.as<PadParams>();
        return {lax::pad(x, value, pad.low, pad.high, pad.interior)};
      },
      .transpose = [](const TransposeCall& call) -> Tangents {
        const auto& pad = call.params.as<PadParams>();
        const Value& ct = *call.cotangents[0];
        std::vector<std::int64_t> low, high, none(pad.low.size(), 0), strides;
        for (std::size_t d = 0; d < pad.low.size(); ++d) {
          low.push_back(-pad.low[d]);
          high.push_back(-pad.high[d]);
          strides.push_back(pad.interior[d] + 1);
        }
        Value whole = lax::pad(ct, zeros(ct, {ct.aval().dtype, {}}), low, high, none);
        Value x = lax::slice(whole, none, whole.aval().shape, strides);
        Tangents out(2);
        if (call.operands[0].linear()) out[0] = x;
        if (call.operands[1].linear()) {
          std::vector<std::int64_t> all;
          for (std::size_t d = 0; d < pad.low.size(); ++d) all.push_back(static_cast<std::int64_t>(d));
          out[1] = lax::sub(lax::reduce_sum(ct, all), lax::reduce_sum(x, all));
        }
        return out;
      },
      .batching = [](const BatchCall& call) -> std::vector<Value> {
        const auto& pad = call.params.as<PadParams>();
        auto low = rules::prepended(0, pad.low), high = rules::prepended(0, pad.high),
             interior = rules::prepended(0, pad.interior);
        Value x = call.batched[0] ? call.inputs[0] : rules::broadcast_leading(call.inputs[0], call.size);
        if (!call.batched[1]) return {lax::pad(x, call.inputs[1], low, high, interior)};
        Value padded = lax::pad(x, zeros(x, {x.aval().dtype, {}}), low, high, interior);
        Value is_padding = lax::pad(lax::full(x, Scalar::of(false), DType::kBool, x.aval().shape),
                                    lax::full(x, Scalar::of(true), DType::kBool, {}), low, high, interior);
        return {
            lax::select(is_padding, lax::broadcast_in_dim(call.inputs[1], padded.aval().shape, {0}), padded)};
      },
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const auto& pad = e.params.as<PadParams>();
        return {out.op("stablehlo.pad", e,
                       fmt::format("edge_padding_low = {}, edge_padding_high = {}, interior_padding = {}",
                                   mlir_array(pad.low), mlir_array(pad.high), mlir_array(pad.interior)))};
      },
      .linear = {.together = {{0, 1}}, .moves = true},
  };
  return p;
}

const Primitive& concatenate_p() {
  static const Primitive p = {
      .name = "concatenate",
      .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
        std::int64_t dimension = params.as<ConcatenateParams>().dimension;
        if (inputs.empty()) fail<ShapeError>("expected at least one operand, got none");
        rules::same_dtypes(inputs);
        if (dimension < 0 || dimension >= inputs[0].rank()) {
          fail<ShapeError>("expected a dimension of {}, got {}", to_string(inputs[0]), dimension);
        }
        Shape shape = inputs[0].shape;
        auto along = static_cast<std::size_t>(dimension);
        shape[along] = 0;
        for (const Aval& aval : inputs) {
          Shape expected = inputs[0].shape;
          if (aval.rank() == inputs[0].rank()) expected[along] = aval.shape[along];
          if (aval.shape != expected) {
            fail<ShapeError>("expected operands that differ in dimension {} only, got {} and {}", dimension,
                             to_string(inputs[0]), to_string(aval));
          }
          shape[along] += aval.shape[along];
        }
        return {with_shape(inputs[0], shape)};
      },
      .sharding =
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params) {
            auto along = static_cast<std::size_t>(params.as<ConcatenateParams>().dimension);
            ShardingRule rule = keeping(inputs, outputs, [&](std::size_t d) { return d != along; });
            for (auto& dims : rule.operands) dims = rule.operands[0];
            return rule;
          },
      .jvp = [](const JvpCall& call) -> Tangents {
        std::vector<Value> tangents;
        bool any = false;
        for (std::size_t i = 0; i < call.inputs.size(); ++i) {
          any = any || call.tangents[i];
          tangents.push_back(call.tangents[i] ? *call.tangents[i]
                                              : zeros(call.inputs[i], call.inputs[i].aval()));
        }
        if (!any) return {std::nullopt};
        return {lax::concatenate(std::span<const Value>(tangents),
                                 call.params.as<ConcatenateParams>().dimension)};
      },
      .transpose = [](const TransposeCall& call) -> Tangents {
        auto along = static_cast<std::size_t>(call.params.as<ConcatenateParams>().dimension);
        const Value& ct = *call.cotangents[0];
        Tangents out;
        Shape start(ct.aval().shape.size(), 0), limit = ct.aval().shape;
        for (const TransposeOperand& operand : call.operands) {
          limit[along] = start[along] + operand.aval.shape[along];
          out.push_back(operand.linear() ? std::optional(lax::slice(ct, start, limit)) : std::nullopt);
          start[along] = limit[along];
        }
        return out;
      },
      .batching = [](const BatchCall& call) -> std::vector<Value> {
        std::vector<Value> inputs;
        for (std::size_t i = 0; i < call.inputs.size(); ++i) {
          inputs.push_back(call.batched[i] ? call.inputs[i]
                                           : rules::broadcast_leading(call.inputs[i], call.size));
        }
        return {lax::concatenate(std::span<const Value>(inputs),
                                 call.params.as<ConcatenateParams>().dimension + 1)};
      },
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        return {out.op("stablehlo.concatenate", e,
                       fmt::format("dimension = {} : i64", e.params.as<ConcatenateParams>().dimension))};
      },
      .linear = {.together = {{}}, .moves = true},
  };
  return p;
}

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
        return {out.op("stablehlo.dynamic_slice", e,
                       "slice_sizes = " + mlir_array(e.params.as<DynamicSliceParams>().slice_sizes))};
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

}  // namespace lockstep
