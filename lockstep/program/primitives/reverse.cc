#include "lockstep/program/primitives/reverse.h"

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/rules.h"

namespace lockstep {

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
            const auto& dimensions = params.as<RevParams>().dimensions;
            return rules::keeping(inputs, outputs, [&dimensions](std::size_t d) {
              return std::ranges::find(dimensions, static_cast<std::int64_t>(d)) == dimensions.end();
            });
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
  };
  return p;
}

}  // namespace lockstep
