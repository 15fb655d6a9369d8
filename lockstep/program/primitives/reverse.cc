// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/reverse.h"

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/rules.h"

namespace lockstep::ir {

const Primitive& rev_p() {
  static const Primitive p = {
      .name = "rev",
      .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
        const auto& dimensions = params.as<RevParams>().dimensions;
        for (std::int64_t d : dimensions) {
          if (d < 0 || d >= inputs[0].rank() || std::ranges::count(dimensions, d) > 1) {
            fail<ShapeError>("expected dimensions of {}, each once, got {}", to_string(inputs[0]),
                             to_string(dimensions));
          }
        }
        return {rules::with_shape(inputs[0], inputs[0].shape)};
      },
      .sharding =
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params) {
            ShardingRule rule = ShardingRule::elementwise(inputs, outputs);
            for (std::int64_t dimension : params.as<RevParams>().dimensions) {
              const auto d = static_cast<std::size_t>(dimension);
              rule.factors[static_cast<std::size_t>(rule.operands[0][d])].exchanged =
                  [size = inputs[0].shape[d]](std::size_t, std::int64_t parts) {
                    return Exchanged{size / parts, 1};
                  };
            }
            rule.write = [dims = rule.operands[0]](const OpParams& local, std::span<const Value> operands,
                                                   const PartPlaces& places) -> std::vector<Value> {
              Value x = operands[0];
              const std::vector<std::int64_t>& turned = local.as<RevParams>().dimensions;
              for (std::int64_t dimension : turned) {
                // The last device's part is sent to the first device.
                const auto d = static_cast<std::size_t>(dimension);
                if (!places.is_split(dims[d])) continue;
                const std::int64_t size = x.aval().shape[d], last = (places.num_parts(dims[d]) - 1) * size;
                x = places.window(x, d, dims[d], {last, -size, size}, std::nullopt);
              }
              return {lax::rev(x, turned)};
            };
            return rule;
          },
      .jvp = rules::linear_jvp(rev_p),
      .transpose = [](const TransposeCall& call) -> Tangents {
        return {lax::rev(*call.cotangents[0], call.params.as<RevParams>().dimensions)};
      },
      .batching = [](const BatchCall& call) -> std::vector<Value> {
        return {lax::rev(call.inputs[0], rules::shifted(call.params.as<RevParams>().dimensions))};
      },
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        return {out.op("stablehlo.reverse", e,
                       "dimensions = " + mlir_array(e.params.as<RevParams>().dimensions))};
      },
      .linear = {.together = {{0}}, .moves = true},
  };
  return p;
}

const Primitive& rotate_p() {
  static const Primitive p = {
      .name = "rotate",
      .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
        const auto& [dimension, by] = params.as<RotateParams>();
        if (dimension < 0 || dimension >= inputs[0].rank() || by < 0 ||
            by > inputs[0].shape[static_cast<std::size_t>(dimension)]) {
          fail<ShapeError>("expected a dimension of {} and a shift from 0 to its size, got {} and {}",
                           to_string(inputs[0]), dimension, by);
        }
        return {rules::with_shape(inputs[0], inputs[0].shape)};
      },
      .sharding =
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params) {
            const auto& [dimension, by] = params.as<RotateParams>();
            const auto d = static_cast<std::size_t>(dimension);
            ShardingRule rule = ShardingRule::elementwise(inputs, outputs);
            const int factor = rule.operands[0][d];
            const std::int64_t size = inputs[0].shape[d];
            // The shorter direction, so that elements that a device keeps are where it looks for them.
            const std::int64_t first = 2 * by > size ? by - size : by;
            auto windows = [first, size](std::int64_t parts) {
              return PartWindows{first, size / parts, size / parts, true};
            };
            rule.factors[static_cast<std::size_t>(factor)].exchanged = [windows, size](std::size_t,
                                                                                       std::int64_t parts) {
              return plan_windows(windows(parts), parts, size / parts).exchanged;
            };
            rule.write = [windows, factor, d](const OpParams& local, std::span<const Value> operands,
                                              const PartPlaces& places) -> std::vector<Value> {
              if (!places.is_split(factor)) return {lax::apply1<Value>(rotate_p(), local, {operands[0]})};
              return {places.window(operands[0], d, factor, windows(places.num_parts(factor)), std::nullopt)};
            };
            return rule;
          },
      .jvp = rules::linear_jvp(rotate_p),
      .transpose = [](const TransposeCall& call) -> Tangents {
        const auto& [dimension, by] = call.params.as<RotateParams>();
        return {lax::rotate(*call.cotangents[0], dimension, -by)};
      },
      .batching = [](const BatchCall& call) -> std::vector<Value> {
        const auto& [dimension, by] = call.params.as<RotateParams>();
        return {lax::rotate(call.inputs[0], dimension + 1, by)};
      },
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const auto& [dimension, by] = e.params.as<RotateParams>();
        const Aval& x = out.operand_aval(e, 0);
        const auto d = static_cast<std::size_t>(dimension);
        auto part = [&](std::int64_t from, std::int64_t to) {
          Shape start(x.shape.size()), limit = x.shape, shape = x.shape;
          start[d] = from;
          limit[d] = to;
          shape[d] = to - from;
          return std::pair(out.slice(out.operand(e, 0), x.dtype, x.shape, start, limit),
                           mlir_type(x.dtype, shape));
        };
        const auto behind = part(by, x.shape[d]), front = part(0, by);
        const std::string operands[] = {behind.first, front.first}, types[] = {behind.second, front.second};
        return {out.op("stablehlo.concatenate", operands, types, out.result_type(e),
                       fmt::format("dimension = {} : i64", dimension))};
      },
      .linear = {.together = {{0}}, .moves = true},
  };
  return p;
}

const Primitive& reduce_precision_p() {
  static const Primitive p = {
      .name = "reduce_precision",
      .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
        const auto& bits = params.as<ReducePrecisionParams>();
        if (!is_floating(inputs[0].dtype))
          fail<DTypeError>("expected floating numbers, got {}", to_string(inputs[0]));
        if (bits.exponent_bits < 1 || bits.mantissa_bits < 0) {
          fail<ShapeError>("expected 1 or more bits of exponent and 0 or more of mantissa, got {} and {}",
                           bits.exponent_bits, bits.mantissa_bits);
        }
        return {rules::with_shape(inputs[0], inputs[0].shape)};
      },
      .sharding = [](std::span<const Aval> inputs, std::span<const Aval> outputs,
                     const OpParams&) { return ShardingRule::elementwise(inputs, outputs); },
      .jvp = rules::linear_jvp(reduce_precision_p),
      .transpose = [](const TransposeCall& call) -> Tangents {
        const auto& bits = call.params.as<ReducePrecisionParams>();
        return {lax::reduce_precision(*call.cotangents[0], bits.exponent_bits, bits.mantissa_bits)};
      },
      .batching = [](const BatchCall& call) { return rules::batch_elementwise(reduce_precision_p(), call); },
      .flops = flops_of_results,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const auto& bits = e.params.as<ReducePrecisionParams>();
        return {out.op("stablehlo.reduce_precision", e,
                       fmt::format("exponent_bits = {} : i32, mantissa_bits = {} : i32", bits.exponent_bits,
                                   bits.mantissa_bits))};
      },
      .by_element = true,
  };
  return p;
}

}  // namespace lockstep::ir
