// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/random.h"

#include <array>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/threefry/threefry.h"

namespace lockstep::ir {
namespace {

/// In a loop a call takes longer than the operations, for fewer elements than these.
constexpr std::int64_t kFewestInLoop = 256;

/// A call, of numbers where an operand has the same number in all elements.
std::vector<std::string> call_threefry(Lowering& out, const Equation& e) {
  Lowering::Names operands, types;
  for (std::size_t i = 0; i < e.inputs.size(); ++i) {
    const Equation* const made = out.made_by(e, i);
    std::string name = out.operand(e, i);
    Shape shape = out.operand_aval(e, i).shape;
    if (made != nullptr && made->primitive == &full_p()) {
      shape = {};
      name = out.splat(made->params.as<FullParams>().value, DType::kU32, shape);
    } else if (made != nullptr && made->primitive == &broadcast_in_dim_p() &&
               out.operand_aval(*made, 0).shape.empty()) {
      shape = {};
      name = out.operand(*made, 0);
    }
    operands.push_back(std::move(name));
    types.push_back(mlir_type(DType::kU32, shape));
  }
  return out.library_call(threefry::kThreefryTarget, e, operands, types, "");
}

std::vector<std::string> lower_threefry(Lowering& out, const Equation& e) {
  if (out.for_cpu() && (!out.in_loop() || out.result_aval(e).num_elements() >= kFewestInLoop))
    return call_threefry(out, e);
  const Shape& shape = out.operand_aval(e, 0).shape;
  const std::string type = out.operand_type(e, 0);
  auto op = [&](std::string_view name, const std::string& a, const std::string& b) {
    std::string operands[] = {a, b}, types[] = {type, type};
    return out.op(name, operands, types, type);
  };
  auto constant = [&](std::int64_t value) { return out.splat(Scalar::of(value), DType::kU32, shape); };
  auto add = [&](const std::string& a, const std::string& b) { return op("stablehlo.add", a, b); };
  auto exclusive_or = [&](const std::string& a, const std::string& b) { return op("stablehlo.xor", a, b); };
  auto rotate_left = [&](const std::string& x, int bits) {
    return op("stablehlo.or", op("stablehlo.shift_left", x, constant(bits)),
              op("stablehlo.shift_right_logical", x, constant(32 - bits)));
  };

  const std::string key0 = out.operand(e, 0), key1 = out.operand(e, 1);
  const std::array<std::string, 3> keys = {
      key0, key1, exclusive_or(exclusive_or(key0, key1), constant(threefry::kKeyParity))};
  std::string x0 = add(out.operand(e, 2), key0), x1 = add(out.operand(e, 3), key1);
  for (std::size_t injection = 1; injection <= 5; ++injection) {
    for (int bits : threefry::kRotations[(injection - 1) % 2]) {
      x0 = add(x0, x1);
      x1 = exclusive_or(rotate_left(x1, bits), x0);
    }
    x0 = add(x0, keys[injection % 3]);
    x1 = add(x1, add(keys[(injection + 1) % 3], constant(static_cast<std::int64_t>(injection))));
  }
  // Without a barrier XLA writes the rounds out again in each operation that uses the words, and again for
  // each in those: a chain of keys then takes seconds to compile.
  const std::string words = out.fresh();
  out.line(fmt::format("{}:2 = \"stablehlo.optimization_barrier\"({}, {}) : ({}, {}) -> ({}, {})", words, x0,
                       x1, type, type, type, type));
  return {words + "#0", words + "#1"};
}

}  // namespace

const Primitive& threefry2x32_p() {
  static const Primitive p = {
      .name = "threefry2x32",
      .shape = [](std::span<const Aval> inputs, const OpParams&) -> std::vector<Aval> {
        rules::same_shapes(inputs);
        for (const Aval& aval : inputs) {
          if (aval.dtype != DType::kU32) {
            fail<DTypeError>("expected keys and counters of u32, got {}", to_string(aval));
          }
        }
        return std::vector<Aval>(2, Aval{DType::kU32, inputs[0].shape});
      },
      .sharding = [](std::span<const Aval> inputs, std::span<const Aval> outputs,
                     const OpParams&) { return ShardingRule::elementwise(inputs, outputs); },
      .jvp = zero_tangents,
      .transpose = not_linear,
      .batching = [](const BatchCall& call) { return rules::batch_elementwise(threefry2x32_p(), call); },
      .flops = flops_of_results,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = lower_threefry,
  };
  return p;
}

}  // namespace lockstep::ir
