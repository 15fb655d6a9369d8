#include "lockstep/program/primitives/shape.h"

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/rules.h"

namespace lockstep {
namespace {

constexpr int kWhole = ShardingRule::kWhole;

Aval with_shape(const Aval& aval, Shape shape) { return {aval.dtype, std::move(shape), aval.weak_type, {}}; }

Value zeros(const Value& like, const Aval& aval) {
  return lax::full(like, is_inexact(aval.dtype) ? Scalar::of(0.0) : Scalar::of(0), aval.dtype, aval.shape);
}

void check_rank(std::size_t given, const Aval& aval, std::string_view what) {
  if (given != aval.shape.size()) {
    fail<ShapeError>("expected {} for each of the {} dimensions of {}, got {}", what, aval.shape.size(),
                     to_string(aval), given);
  }
}

/// A rule under which operand 0 and the result share the dimensions that `keeps` names, and have the others
/// whole. Further operands are whole.
template <class Keeps>
ShardingRule keeping(std::span<const Aval> inputs, std::span<const Aval> outputs, Keeps keeps) {
  ShardingRule rule = ShardingRule::replicated(inputs, outputs);
  for (std::size_t d = 0; d < inputs[0].shape.size(); ++d) {
    if (!keeps(d)) continue;
    rule.operands[0][d] = rule.results[0][d] = static_cast<int>(rule.factors.size());
    rule.factors.push_back({inputs[0].shape[d]});
  }
  return rule;
}

/// Batching of an operation on scalars that only say where: one example after the other.
std::vector<Value> batch_one_by_one(const Primitive& primitive, const BatchCall& call) {
  std::vector<Value> results;
  for (std::int64_t i = 0; i < call.size; ++i) {
    std::vector<Value> inputs;
    for (std::size_t k = 0; k < call.inputs.size(); ++k) {
      const Value& x = call.inputs[k];
      if (!call.batched[k]) {
        inputs.push_back(x);
        continue;
      }
      Shape start(x.aval().shape.size(), 0), limit = x.aval().shape;
      start[0] = i, limit[0] = i + 1;
      inputs.push_back(lax::reshape(lax::slice(x, start, limit), Shape(limit.begin() + 1, limit.end())));
    }
    results.push_back(rules::broadcast_leading(call.builder.emit(primitive, call.params, inputs).front(), 1));
  }
  return {lax::concatenate(std::span<const Value>(results), 0)};
}

std::vector<Value> starts_of(std::span<const Value> inputs, std::size_t first) {
  return {inputs.begin() + static_cast<std::ptrdiff_t>(first), inputs.end()};
}

void check_starts(std::span<const Aval> inputs, std::size_t first) {
  check_rank(inputs.size() - first, inputs[0], "one start");
  for (const Aval& start : inputs.subspan(first)) {
    if (!start.shape.empty() || !is_integer(start.dtype)) {
      fail<ShapeError>("expected integer scalars as starts, got {}", to_string(start));
    }
  }
}

}  // namespace

const Primitive& full_p() {
  static const Primitive p = {
      .name = "full",
      .shape = [](std::span<const Aval>, const Params& params) -> std::vector<Aval> {
        const auto& full = params.as<FullParams>();
        return {Aval{full.dtype, full.shape, full.weak_type, {}}};
      },
      .sharding =
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const Params&) {
            ShardingRule rule = ShardingRule::elementwise(inputs, outputs);
            rule.localize = [](const Params& params, const std::vector<Shape>&,
                               const std::vector<Shape>& results) {
              FullParams full = params.as<FullParams>();
              full.shape = results[0];
              return Params::of(full);
            };
            return rule;
          },
      .jvp = zero_tangents,
      .transpose = not_linear,
      .batching = [](const BatchCall& call) { return call.builder.emit(full_p(), call.params, {}); },
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const auto& full = e.params.as<FullParams>();
        return {out.splat(full.value, full.dtype, full.shape)};
      },
  };
  return p;
}

const Primitive& iota_p() {
  static const Primitive p = {
      .name = "iota",
      .shape = [](std::span<const Aval>, const Params& params) -> std::vector<Aval> {
        const auto& iota = params.as<IotaParams>();
        if (iota.dimension < 0 || iota.dimension >= static_cast<std::int64_t>(iota.shape.size())) {
          fail<ShapeError>("expected a dimension of {}, got {}", to_string(iota.shape), iota.dimension);
        }
        if (iota.dtype == DType::kBool) fail<DTypeError>("expected a dtype of numbers, got bool");
        return {Aval{iota.dtype, iota.shape, false, {}}};
      },
      .sharding =
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const Params& params) {
            ShardingRule rule = ShardingRule::elementwise(inputs, outputs);
            rule.results[0][static_cast<std::size_t>(params.as<IotaParams>().dimension)] = kWhole;
            rule.localize = [](const Params& params, const std::vector<Shape>&,
                               const std::vector<Shape>& results) {
              IotaParams iota = params.as<IotaParams>();
              iota.shape = results[0];
              return Params::of(iota);
            };
            return rule;
          },
      .jvp = zero_tangents,
      .transpose = not_linear,
      .batching = [](const BatchCall& call) { return call.builder.emit(iota_p(), call.params, {}); },
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        return {out.op("stablehlo.iota", e,
                       fmt::format("iota_dimension = {} : i64", e.params.as<IotaParams>().dimension))};
      },
  };
  return p;
}

const Primitive& broadcast_in_dim_p() {
  static const Primitive p = {
      .name = "broadcast_in_dim",
      .shape = [](std::span<const Aval> inputs, const Params& params) -> std::vector<Aval> {
        const auto& to = params.as<BroadcastInDimParams>();
        check_rank(to.broadcast_dimensions.size(), inputs[0], "a place in the result");
        std::int64_t last = -1;
        for (std::size_t i = 0; i < to.broadcast_dimensions.size(); ++i) {
          std::int64_t d = to.broadcast_dimensions[i], size = inputs[0].shape[i];
          if (d <= last || d >= static_cast<std::int64_t>(to.shape.size())) {
            fail<ShapeError>("expected rising dimensions of {}, got {}", to_string(to.shape),
                             to_string(to.broadcast_dimensions));
          }
          last = d;
          if (size != 1 && size != to.shape[static_cast<std::size_t>(d)]) {
            fail<ShapeError>("{} does not broadcast to {}: its dimension {} has size {}, the result's has {}",
                             to_string(inputs[0]), to_string(to.shape), i, size,
                             to.shape[static_cast<std::size_t>(d)]);
          }
        }
        return {with_shape(inputs[0], to.shape)};
      },
      .sharding =
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const Params& params) {
            ShardingRule rule = ShardingRule::elementwise({}, outputs);
            rule.operands.emplace_back(inputs[0].shape.size(), kWhole);
            const auto& dimensions = params.as<BroadcastInDimParams>().broadcast_dimensions;
            for (std::size_t i = 0; i < dimensions.size(); ++i) {
              auto d = static_cast<std::size_t>(dimensions[i]);
              if (inputs[0].shape[i] == outputs[0].shape[d]) rule.operands[0][i] = rule.results[0][d];
            }
            rule.localize = [](const Params& params, const std::vector<Shape>&,
                               const std::vector<Shape>& results) {
              BroadcastInDimParams to = params.as<BroadcastInDimParams>();
              to.shape = results[0];
              return Params::of(to);
            };
            return rule;
          },
      .jvp = rules::linear_jvp(broadcast_in_dim_p),
      .transpose = [](const TransposeCall& call) -> Tangents {
        const auto& dimensions = call.params.as<BroadcastInDimParams>().broadcast_dimensions;
        const Shape &from = call.operands[0].aval.shape, &to = call.results[0].shape;
        std::vector<std::int64_t> repeated;
        for (std::size_t d = 0; d < to.size(); ++d) {
          auto it = std::ranges::find(dimensions, static_cast<std::int64_t>(d));
          if (it == dimensions.end() || from[static_cast<std::size_t>(it - dimensions.begin())] != to[d]) {
            repeated.push_back(static_cast<std::int64_t>(d));
          }
        }
        return {lax::reshape(lax::reduce_sum(*call.cotangents[0], repeated), from)};
      },
      .batching = [](const BatchCall& call) -> std::vector<Value> {
        const auto& to = call.params.as<BroadcastInDimParams>();
        return {lax::broadcast_in_dim(call.inputs[0], rules::prepended(call.size, to.shape),
                                      rules::prepended(0, rules::shifted(to.broadcast_dimensions)))};
      },
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        return {out.op("stablehlo.broadcast_in_dim", e,
                       "broadcast_dimensions = " +
                           mlir_array(e.params.as<BroadcastInDimParams>().broadcast_dimensions))};
      },
  };
  return p;
}

namespace {

/// Which dimensions of two shapes of as many elements hold the same index: those where the products of the
/// sizes before them agree. Such a pair shares a factor of the smaller size, provided that it divides the
/// larger.
ShardingRule reshape_sharding(std::span<const Aval> inputs, std::span<const Aval> outputs, const Params&) {
  ShardingRule rule = ShardingRule::replicated(inputs, outputs);
  const Shape &from = inputs[0].shape, &to = outputs[0].shape;
  std::size_t i = 0, j = 0;
  std::int64_t before_i = 1, before_j = 1;
  while (i < from.size() && j < to.size()) {
    if (from[i] == 1) {
      ++i;
    } else if (to[j] == 1) {
      ++j;
    } else if (before_i < before_j) {
      before_i *= from[i++];
    } else if (before_j < before_i) {
      before_j *= to[j++];
    } else {
      std::int64_t size = std::min(from[i], to[j]);
      if (size > 0 && from[i] % size == 0 && to[j] % size == 0) {
        rule.operands[0][i] = rule.results[0][j] = static_cast<int>(rule.factors.size());
        rule.factors.push_back({size});
      }
      before_i *= from[i++];
      before_j *= to[j++];
    }
  }
  rule.localize = [](const Params&, const std::vector<Shape>&, const std::vector<Shape>& results) {
    return Params::of(ReshapeParams{results[0]});
  };
  return rule;
}

}  // namespace

const Primitive& reshape_p() {
  static const Primitive p = {
      .name = "reshape",
      .shape = [](std::span<const Aval> inputs, const Params& params) -> std::vector<Aval> {
        const Shape& to = params.as<ReshapeParams>().new_sizes;
        if (num_elements(to) != inputs[0].num_elements()) {
          fail<ShapeError>("expected a shape of {} elements, as {} has, got {} of {}",
                           inputs[0].num_elements(), to_string(inputs[0]), to_string(to), num_elements(to));
        }
        return {with_shape(inputs[0], to)};
      },
      .sharding = reshape_sharding,
      .jvp = rules::linear_jvp(reshape_p),
      .transpose = [](const TransposeCall& call) -> Tangents {
        return {lax::reshape(*call.cotangents[0], call.operands[0].aval.shape)};
      },
      .batching = [](const BatchCall& call) -> std::vector<Value> {
        return {lax::reshape(call.inputs[0],
                             rules::prepended(call.size, call.params.as<ReshapeParams>().new_sizes))};
      },
      .lower = rules::lower_as("reshape"),
  };
  return p;
}

const Primitive& transpose_p() {
  static const Primitive p = {
      .name = "transpose",
      .shape = [](std::span<const Aval> inputs, const Params& params) -> std::vector<Aval> {
        const auto& permutation = params.as<TransposeParams>().permutation;
        std::vector<std::int64_t> sorted = permutation;
        std::ranges::sort(sorted);
        check_rank(permutation.size(), inputs[0], "one entry");
        Shape shape;
        for (std::size_t i = 0; i < sorted.size(); ++i) {
          if (sorted[i] != static_cast<std::int64_t>(i)) {
            fail<ShapeError>("expected a permutation of the {} dimensions of {}, got {}", sorted.size(),
                             to_string(inputs[0]), to_string(permutation));
          }
          shape.push_back(inputs[0].shape[static_cast<std::size_t>(permutation[i])]);
        }
        return {with_shape(inputs[0], shape)};
      },
      .sharding =
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const Params& params) {
            ShardingRule rule = ShardingRule::elementwise({}, outputs);
            rule.operands.emplace_back(inputs[0].shape.size(), kWhole);
            const auto& permutation = params.as<TransposeParams>().permutation;
            for (std::size_t i = 0; i < permutation.size(); ++i) {
              rule.operands[0][static_cast<std::size_t>(permutation[i])] = rule.results[0][i];
            }
            return rule;
          },
      .jvp = rules::linear_jvp(transpose_p),
      .transpose = [](const TransposeCall& call) -> Tangents {
        const auto& permutation = call.params.as<TransposeParams>().permutation;
        std::vector<std::int64_t> inverse(permutation.size());
        for (std::size_t i = 0; i < permutation.size(); ++i) {
          inverse[static_cast<std::size_t>(permutation[i])] = static_cast<std::int64_t>(i);
        }
        return {lax::transpose(*call.cotangents[0], inverse)};
      },
      .batching = [](const BatchCall& call) -> std::vector<Value> {
        return {lax::transpose(
            call.inputs[0],
            rules::prepended(0, rules::shifted(call.params.as<TransposeParams>().permutation)))};
      },
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        return {out.op("stablehlo.transpose", e,
                       "permutation = " + mlir_array(e.params.as<TransposeParams>().permutation))};
      },
  };
  return p;
}

const Primitive& slice_p() {
  static const Primitive p = {
      .name = "slice",
      .shape = [](std::span<const Aval> inputs, const Params& params) -> std::vector<Aval> {
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
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const Params&) {
            ShardingRule rule = keeping(
                inputs, outputs, [&](std::size_t d) { return inputs[0].shape[d] == outputs[0].shape[d]; });
            rule.localize = [dims = rule.operands[0]](const Params& params,
                                                      const std::vector<Shape>& operands,
                                                      const std::vector<Shape>&) {
              SliceParams s = params.as<SliceParams>();
              for (std::size_t d = 0; d < dims.size(); ++d) {
                if (dims[d] != kWhole) s.limit_indices[d] = operands[0][d];
              }
              return Params::of(s);
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
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const auto& s = e.params.as<SliceParams>();
        return {out.op(
            "stablehlo.slice", e,
            fmt::format("start_indices = {}, limit_indices = {}, strides = {}", mlir_array(s.start_indices),
                        mlir_array(s.limit_indices), mlir_array(s.strides)))};
      },
  };
  return p;
}

const Primitive& pad_p() {
  static const Primitive p = {
      .name = "pad",
      .shape = [](std::span<const Aval> inputs, const Params& params) -> std::vector<Aval> {
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
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const Params& params) {
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
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const auto& pad = e.params.as<PadParams>();
        return {out.op("stablehlo.pad", e,
                       fmt::format("edge_padding_low = {}, edge_padding_high = {}, interior_padding = {}",
                                   mlir_array(pad.low), mlir_array(pad.high), mlir_array(pad.interior)))};
      },
  };
  return p;
}

const Primitive& concatenate_p() {
  static const Primitive p = {
      .name = "concatenate",
      .shape = [](std::span<const Aval> inputs, const Params& params) -> std::vector<Aval> {
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
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const Params& params) {
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
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        return {out.op("stablehlo.concatenate", e,
                       fmt::format("dimension = {} : i64", e.params.as<ConcatenateParams>().dimension))};
      },
  };
  return p;
}

const Primitive& dynamic_slice_p() {
  static const Primitive p = {
      .name = "dynamic_slice",
      .shape = [](std::span<const Aval> inputs, const Params& params) -> std::vector<Aval> {
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
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const Params&) {
            ShardingRule rule = keeping(
                inputs, outputs, [&](std::size_t d) { return inputs[0].shape[d] == outputs[0].shape[d]; });
            rule.localize = [](const Params&, const std::vector<Shape>&, const std::vector<Shape>& results) {
              return Params::of(DynamicSliceParams{results[0]});
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
        if (std::ranges::find(call.batched.subspan(1), true) != call.batched.end()) {
          return batch_one_by_one(dynamic_slice_p(), call);
        }
        std::vector<Value> starts = starts_of(call.inputs, 1);
        starts.insert(starts.begin(), lax::full(call.inputs[0], Scalar::of(0),
                                                starts.empty() ? DType::kI32 : starts[0].aval().dtype, {}));
        return {lax::dynamic_slice(
            call.inputs[0], std::span<const Value>(starts),
            rules::prepended(call.size, call.params.as<DynamicSliceParams>().slice_sizes))};
      },
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        return {out.op("stablehlo.dynamic_slice", e,
                       "slice_sizes = " + mlir_array(e.params.as<DynamicSliceParams>().slice_sizes))};
      },
  };
  return p;
}

const Primitive& dynamic_update_slice_p() {
  static const Primitive p = {
      .name = "dynamic_update_slice",
      .shape = [](std::span<const Aval> inputs, const Params&) -> std::vector<Aval> {
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
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const Params&) {
            ShardingRule rule = keeping(
                inputs, outputs, [&](std::size_t d) { return inputs[0].shape[d] == inputs[1].shape[d]; });
            rule.operands[1] = rule.operands[0];
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
        if (std::ranges::find(call.batched.subspan(2), true) != call.batched.end()) {
          return batch_one_by_one(dynamic_update_slice_p(), call);
        }
        auto whole = [&](std::size_t i) {
          return call.batched[i] ? call.inputs[i] : rules::broadcast_leading(call.inputs[i], call.size);
        };
        std::vector<Value> starts = starts_of(call.inputs, 2);
        starts.insert(starts.begin(), lax::full(call.inputs[0], Scalar::of(0),
                                                starts.empty() ? DType::kI32 : starts[0].aval().dtype, {}));
        return {lax::dynamic_update_slice(whole(0), whole(1), std::span<const Value>(starts))};
      },
      .lower = rules::lower_as("dynamic_update_slice"),
  };
  return p;
}

}  // namespace lockstep
