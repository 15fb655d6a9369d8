// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/shape.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "lockstep/base/all_are.h"
#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/windowed.h"

namespace lockstep::ir {
namespace {

using rules::check_rank;
using rules::keeping;
using rules::LocalDim;
using rules::windowed;
using rules::WindowedDim;
using rules::with_shape;
using rules::zeros;

/// Whether a slice takes only few elements, in a number that devices do not divide.
bool is_taken(const WindowedDim& dim) {
  return dim.count > 0 && dim.factor().size == 1 && 4 * dim.count <= dim.size;
}

/// The elements that a slice takes of a dimension, if the device has them; else zeros.
Value taken_of_part(const Value& x, std::size_t d, const WindowedDim& dim, const PartPlaces& places) {
  const std::int64_t span = (dim.count - 1) * dim.stride + 1;
  const std::size_t rank = x.aval().shape.size();
  std::vector<std::int64_t> around(rank), none(rank), first(rank), strides(rank, 1);
  around[d] = span;
  strides[d] = dim.stride;
  const Value wide = lax::pad(x, zeros(x, {x.aval().dtype, {}}), around, around, none);
  // A start far outside is moved to the edge, where there are only zeros.
  const Value start = places.start(static_cast<int>(d), place_dtype(4 * dim.size));
  std::vector<Value> starts(rank, lax::full_like(start, 0));
  starts[d] = lax::sub(lax::full_like(start, static_cast<double>(span - dim.low)), start);
  Shape sizes = x.aval().shape;
  sizes[d] = span;
  return lax::slice(lax::dynamic_slice(wide, std::span<const Value>(starts), sizes), first, sizes, strides);
}

/// The elements of x, which is whole, that are in the device's part of a result with `count` elements, if x
/// begins at position `begin` of the result.
Value under_part(const Value& x, std::size_t along, std::int64_t begin, std::int64_t count,
                 const Value& first) {
  const std::size_t rank = x.aval().shape.size();
  std::vector<std::int64_t> around(rank), none(rank);
  around[along] = count;
  const Value wide = lax::pad(x, zeros(x, {x.aval().dtype, {}}), around, around, none);
  std::vector<Value> starts(rank, lax::full_like(first, 0));
  starts[along] = lax::add(first, lax::full_like(first, static_cast<double>(count - begin)));
  Shape sizes = x.aval().shape;
  sizes[along] = count;
  return lax::dynamic_slice(wide, std::span<const Value>(starts), sizes);
}

/// For a split of the dimension along which operands are concatenated: if an operand's size is divisible,
/// each device fetches the elements of its part of the result from the others' parts; small operands are
/// whole.
void concatenate_parts(ShardingRule& rule, std::span<const Aval> inputs, const Aval& output,
                       std::size_t along) {
  const std::int64_t size = output.shape[along];
  auto common = [&](std::int64_t least) {
    std::int64_t divided = size;
    for (const Aval& input : inputs)
      if (input.shape[along] >= least) divided = std::gcd(divided, input.shape[along]);
    return divided;
  };
  std::int64_t least = 1;
  if (common(least) == 1) least = size / 8 + 1;
  if (common(least) <= 1) return;
  const auto factor = static_cast<int>(rule.factors.size());
  std::vector<std::int64_t> sizes;
  for (const Aval& input : inputs) sizes.push_back(input.shape[along]);
  rule.factors.push_back(
      {.size = common(least), .exchanged = [sizes, size](std::size_t operand, std::int64_t parts) {
         const std::int64_t count = size / parts;
         const std::int64_t begin = std::accumulate(
             sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(operand), std::int64_t{0});
         return plan_windows({-begin, count, count}, parts, sizes[operand] / parts).exchanged;
       }});
  rule.results[0][along] = factor;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (sizes[i] >= least) rule.operands[i][along] = factor;
  rule.write = [sizes, size, least, factor, along](const OpParams& local, std::span<const Value> operands,
                                                   const PartPlaces& places) -> std::vector<Value> {
    if (!places.is_split(factor))
      return {lax::concatenate(operands, local.as<ConcatenateParams>().dimension)};
    const std::int64_t count = size / places.num_parts(factor);
    const DType dtype = place_dtype(2 * size);
    const Value number = places.number(factor, dtype);
    const Value first = lax::mul(number, lax::full_like(number, static_cast<double>(count)));
    const Value at = lax::add(lax::iota(first, dtype, {count}, 0), lax::broadcast_in_dim(first, {count}, {}));
    std::optional<Value> result;
    std::int64_t end = size;
    for (std::size_t i = operands.size(); i-- > 0;) {
      if (sizes[i] == 0) continue;
      end -= sizes[i];
      const Value part = sizes[i] >= least
                             ? places.window(operands[i], along, factor, {-end, count, count}, std::nullopt)
                             : under_part(operands[i], along, end, count, first);
      if (!result) {
        result = part;
        continue;
      }
      // Positions before `end + sizes[i]` belong to this operand or to previous ones, which are selected
      // later.
      const Value is_here = lax::lt(at, lax::full_like(at, static_cast<double>(end + sizes[i])));
      result =
          lax::select(lax::broadcast_in_dim(is_here, part.aval().shape, {static_cast<std::int64_t>(along)}),
                      part, *result);
    }
    return {*result};
  };
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
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params) {
            const auto& s = params.as<SliceParams>();
            std::vector<WindowedDim> dims;
            for (std::size_t d = 0; d < s.strides.size(); ++d)
              dims.push_back({.size = inputs[0].shape[d],
                              .count = outputs[0].shape[d],
                              .stride = s.strides[d],
                              .low = -s.start_indices[d]});
            ShardingRule rule = windowed(inputs, outputs, dims);
            // For a few elements that cannot be split, each device contributes those that it has.
            const bool bools = inputs[0].dtype == DType::kBool;
            for (std::size_t d = 0; d < dims.size(); ++d) {
              if (!is_taken(dims[d])) continue;
              rule.results[0][d] = ShardingRule::kWhole;
              rule.factors[d] = {dims[d].size,
                                 bools ? ShardingRule::Combine::kMax : ShardingRule::Combine::kSum};
            }
            rule.localize = [dims](const OpParams& params, const std::vector<Shape>& operands,
                                   const std::vector<Shape>&) {
              SliceParams s = params.as<SliceParams>();
              for (std::size_t d = 0; d < dims.size(); ++d)
                if (dims[d].keeps_places()) s.limit_indices[d] = operands[0][d];
              return OpParams::of(s);
            };
            rule.write = [dims](const OpParams& local, std::span<const Value> operands,
                                const PartPlaces& places) -> std::vector<Value> {
              SliceParams s = local.as<SliceParams>();
              Value x = operands[0];
              for (std::size_t d = 0; d < dims.size(); ++d) {
                const auto factor = static_cast<int>(d);
                if (dims[d].keeps_places() || !places.is_split(factor)) continue;
                s.start_indices[d] = 0;
                if (is_taken(dims[d])) {
                  s.limit_indices[d] = x.aval().shape[d];
                  s.strides[d] = 1;
                  continue;
                }
                const LocalDim part = part_of_result(dims[d], places.num_parts(factor));
                x = places.window(x, d, factor, part.windows, std::nullopt);
                s.limit_indices[d] = part.windows.count;
              }
              const bool is_done =
                  all_are(s.start_indices, 0) && all_are(s.strides, 1) && s.limit_indices == x.aval().shape;
              if (!is_done) x = lax::slice(x, s.start_indices, s.limit_indices, s.strides);
              for (std::size_t d = 0; d < dims.size(); ++d)
                if (is_taken(dims[d]) && places.is_split(static_cast<int>(d)))
                  x = taken_of_part(x, d, dims[d], places);
              return {x};
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
        check_rank(pad.high.size(), inputs[0], "a padding after");
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
            std::vector<WindowedDim> dims;
            for (std::size_t d = 0; d < pad.low.size(); ++d)
              dims.push_back({.size = inputs[0].shape[d],
                              .count = outputs[0].shape[d],
                              .low = pad.low[d],
                              .dilation = pad.interior[d] + 1});
            ShardingRule rule = windowed(inputs, outputs, dims);
            rule.write = [dims](const OpParams& local, std::span<const Value> operands,
                                const PartPlaces& places) -> std::vector<Value> {
              PadParams pad = local.as<PadParams>();
              const Value x = rules::brought(operands[0], dims, places, operands[1], pad.low, pad.high);
              const bool is_done = all_are(pad.low, 0) && all_are(pad.high, 0) && all_are(pad.interior, 0);
              return {is_done ? x : lax::pad(x, operands[1], pad.low, pad.high, pad.interior)};
            };
            return rule;
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
            concatenate_parts(rule, inputs, outputs[0], along);
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

}  // namespace lockstep::ir
