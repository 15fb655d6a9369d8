// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/random.h"

#include <array>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/rules.h"

namespace lockstep::ir {
namespace {

constexpr std::int64_t kKeyParity = 0x1BD11BDA;

/// By how many bits each round rotates: the two rows alternate, a row for each injection of the key.
constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};

std::vector<std::string> lower_threefry(Lowering& out, const Equation& e) {
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
  const std::array<std::string, 3> keys = {key0, key1,
                                           exclusive_or(exclusive_or(key0, key1), constant(kKeyParity))};
  std::string x0 = add(out.operand(e, 2), key0), x1 = add(out.operand(e, 3), key1);
  for (std::size_t injection = 1; injection <= 5; ++injection) {
    for (int bits : kRotations[(injection - 1) % 2]) {
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
