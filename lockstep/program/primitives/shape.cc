// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/shape.h"

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/rules.h"

namespace lockstep::ir {
namespace {

using rules::check_rank;
using rules::with_shape;
constexpr int kWhole = ShardingRule::kWhole;

}  // namespace

const Primitive& full_p() {
  static const Primitive p = {
      .name = "full",
      .shape = [](std::span<const Aval>, const OpParams& params) -> std::vector<Aval> {
        const auto& full = params.as<FullParams>();
        if (size_of(full.dtype) < 8 && !holds(full.dtype, full.value.integer))
          fail<DTypeError>("expected a number that {} holds, got {}", name(full.dtype), full.value.integer);
        return {Aval{full.dtype, full.shape, full.weak_type, {}}};
      },
      .sharding =
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams&) {
            ShardingRule rule = ShardingRule::elementwise(inputs, outputs);
            rule.localize = [](const OpParams& params, const std::vector<Shape>&,
                               const std::vector<Shape>& results) {
              FullParams full = params.as<FullParams>();
              full.shape = results[0];
              return OpParams::of(full);
            };
            return rule;
          },
      .jvp = zero_tangents,
      .transpose = not_linear,
      .batching = [](const BatchCall& call) { return call.builder.emit(full_p(), call.params, {}); },
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
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
      .shape = [](std::span<const Aval>, const OpParams& params) -> std::vector<Aval> {
        const auto& iota = params.as<IotaParams>();
        if (iota.dimension < 0 || iota.dimension >= static_cast<std::int64_t>(iota.shape.size())) {
          fail<ShapeError>("expected a dimension of {}, got {}", to_string(iota.shape), iota.dimension);
        }
        if (iota.dtype == DType::kBool) fail<DTypeError>("expected a dtype of numbers, got bool");
        return {Aval{iota.dtype, iota.shape, false, {}}};
      },
      .sharding =
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params) {
            ShardingRule rule = ShardingRule::elementwise(inputs, outputs);
            rule.results[0][static_cast<std::size_t>(params.as<IotaParams>().dimension)] = kWhole;
            rule.localize = [](const OpParams& params, const std::vector<Shape>&,
                               const std::vector<Shape>& results) {
              IotaParams iota = params.as<IotaParams>();
              iota.shape = results[0];
              return OpParams::of(iota);
            };
            return rule;
          },
      .jvp = zero_tangents,
      .transpose = not_linear,
      .batching = [](const BatchCall& call) { return call.builder.emit(iota_p(), call.params, {}); },
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
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
      .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
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
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params) {
            ShardingRule rule = ShardingRule::elementwise({}, outputs);
            rule.operands.emplace_back(inputs[0].shape.size(), kWhole);
            const auto& dimensions = params.as<BroadcastInDimParams>().broadcast_dimensions;
            for (std::size_t i = 0; i < dimensions.size(); ++i) {
              auto d = static_cast<std::size_t>(dimensions[i]);
              if (inputs[0].shape[i] == outputs[0].shape[d]) rule.operands[0][i] = rule.results[0][d];
            }
            rule.localize = [](const OpParams& params, const std::vector<Shape>&,
                               const std::vector<Shape>& results) {
              BroadcastInDimParams to = params.as<BroadcastInDimParams>();
              to.shape = results[0];
              return OpParams::of(to);
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
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        return {out.op("stablehlo.broadcast_in_dim", e,
                       "broadcast_dimensions = " +
                           mlir_array(e.params.as<BroadcastInDimParams>().broadcast_dimensions))};
      },
      .linear = {.together = {{0}}, .moves = true},
  };
  return p;
}

namespace {

/// The pairs of dimensions of two shapes with the same number of elements that have the same index: those for
/// which the products of the sizes before them are equal. Such a pair shares a factor of the smaller size, if
/// that divides the larger one.
ShardingRule reshape_sharding(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams&) {
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
  rule.localize = [](const OpParams&, const std::vector<Shape>&, const std::vector<Shape>& results) {
    return OpParams::of(ReshapeParams{results[0]});
  };
  return rule;
}

}  // namespace

const Primitive& reshape_p() {
  static const Primitive p = {
      .name = "reshape",
      .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
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
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = rules::lower_as("reshape"),
      .linear = {.together = {{0}}, .moves = true},
  };
  return p;
}

const Primitive& transpose_p() {
  static const Primitive p = {
      .name = "transpose",
      .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
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
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params) {
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
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        return {out.op("stablehlo.transpose", e,
                       "permutation = " + mlir_array(e.params.as<TransposeParams>().permutation))};
      },
      .linear = {.together = {{0}}, .moves = true},
  };
  return p;
}

}  // namespace lockstep::ir
