// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/elementwise_family.h"

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/rules.h"

namespace lockstep::ir::rules {
namespace {

/// The sum of two terms of which either may be zero.
std::optional<Value> sum(const std::optional<Value>& a, const std::optional<Value>& b) {
  if (a && b) return lax::add(*a, *b);
  return a ? a : b;
}

}  // namespace

void check_dtype(Takes takes, DType dtype) {
  const DTypeKind kind = info(dtype).kind;
  const bool is_number = kind != DTypeKind::kBool;
  auto expect = [&](bool ok, std::string_view what) {
    if (!ok) fail<DTypeError>("expected {} operands, got {}; convert with astype", what, name(dtype));
  };
  switch (takes) {
    case Takes::kAny:
      return;
    case Takes::kNumber:
      return expect(is_number, "numbers as");
    case Takes::kReal:
      return expect(is_integer(dtype) || is_floating(dtype), "integer or floating");
    case Takes::kSignedReal:
      return expect(kind == DTypeKind::kSigned || is_floating(dtype), "signed or floating");
    case Takes::kSignedOrComplex:
      return expect(kind == DTypeKind::kSigned || is_inexact(dtype), "signed, floating or complex");
    case Takes::kInexact:
      return expect(is_inexact(dtype), "floating or complex");
    case Takes::kFloat:
      return expect(is_floating(dtype), "floating");
    case Takes::kComplex:
      return expect(kind == DTypeKind::kComplex, "complex");
    case Takes::kBits:
      return expect(!is_inexact(dtype), "integer or bool");
    case Takes::kInteger:
      return expect(is_integer(dtype), "integer");
  }
}

Primitive elementwise(Elementwise op) {
  return {
      .name = op.name,
      .shape = [takes = op.takes, result = op.result](std::span<const Aval> inputs,
                                                      const OpParams&) -> std::vector<Aval> {
        same_dtypes(inputs);
        check_dtype(takes, inputs[0].dtype);
        same_shapes(inputs);
        Aval out{result == nullptr ? inputs[0].dtype : result(inputs[0].dtype), inputs[0].shape};
        out.weak_type = result == nullptr;
        for (const Aval& aval : inputs) out.weak_type = out.weak_type && aval.weak_type;
        return {out};
      },
      .sharding = [](std::span<const Aval> inputs, std::span<const Aval> outputs,
                     const OpParams&) { return ShardingRule::elementwise(inputs, outputs); },
      .jvp = std::move(op.jvp),
      .transpose = std::move(op.transpose),
      .batching = [self = op.self](const BatchCall& call) { return batch_elementwise(self(), call); },
      .flops = flops_of_results,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = lower_as(op.stablehlo),
      .by_element = true,
  };
}

Jvp binary_jvp(Term by_x, Term by_y) {
  return [by_x = std::move(by_x), by_y = std::move(by_y)](const JvpCall& call) -> Tangents {
    std::optional<Value> x, y;
    if (call.tangents[0]) x = by_x(*call.tangents[0], call);
    if (call.tangents[1]) y = by_y(*call.tangents[1], call);
    return {sum(x, y)};
  };
}

}  // namespace lockstep::ir::rules
