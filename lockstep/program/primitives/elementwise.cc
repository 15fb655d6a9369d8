// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/elementwise.h"

#include <numeric>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/elementwise_family.h"
#include "lockstep/program/primitives/functions_on_cpus.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/window_text.h"

namespace lockstep::ir {
namespace {

using rules::binary_jvp;
using rules::elementwise;
using rules::Jvp;
using rules::Takes;
using rules::unary_jvp;

/// JVP of max and min: the tangent of the operand that wins; equals share it evenly. Of complex numbers one
/// of which is NaN, the one that is the result wins.
Jvp pick_jvp(const Primitive& (*wins)()) {
  auto share = [wins](const Value& mine, const Value& other, const Value& result) {
    Value one = lax::full_like(mine, 1), half = lax::full_like(mine, 0.5), zero = lax::full_like(mine, 0);
    if (is_complex(mine.aval().dtype))
      return lax::select(lax::eq(mine, result), lax::select(lax::eq(other, result), half, one), zero);
    Value won = lax::apply1<Value>(wins(), {mine, other});
    return lax::select(won, one, lax::select(lax::eq(mine, other), half, zero));
  };
  return binary_jvp(
      [share](const Value& t, const JvpCall& c) {
        return lax::mul(t, share(c.inputs[0], c.inputs[1], c.outputs[0]));
      },
      [share](const Value& t, const JvpCall& c) {
        return lax::mul(t, share(c.inputs[1], c.inputs[0], c.outputs[0]));
      });
}

using Values = std::vector<Value>;

/// Complex numbers are computed as `compose` says.
Primitive if_complex(Primitive p, std::function<Value(const Values& operands)> compose) {
  p.lower = [real = p.lower, compose = std::move(compose), name = p.name](Lowering& out, const Equation& e) {
    return is_complex(out.operand_aval(e, 0).dtype) ? out.composed(e, name, compose) : real(out, e);
  };
  return p;
}

/// Euclid's algorithm on all elements, until none has a rest.
std::vector<std::string> euclid(Lowering& out, const Equation& e) {
  const Aval& aval = out.result_aval(e);
  const std::string type = mlir_type(aval);
  const std::string zero = out.splat(Scalar::of(0), aval.dtype, aval.shape),
                    one = out.splat(Scalar::of(1), aval.dtype, aval.shape);
  std::vector<std::int64_t> all(aval.shape.size());
  std::iota(all.begin(), all.end(), 0);
  auto has_rest = [&](const Lowering::Names& values) {
    return reduced_text(out, "or", Scalar::of(false),
                        out.compare("NE", values[1], zero, aval.dtype, aval.shape),
                        {DType::kBool, aval.shape}, all);
  };
  auto step = [&](const Lowering::Names& values) -> Lowering::Names {
    const std::string done = out.compare("EQ", values[1], zero, aval.dtype, aval.shape);
    const std::string operands[] = {values[0], out.select(done, one, values[1], aval.dtype, aval.shape)};
    const std::string types[] = {type, type};
    const std::string rest = out.op("stablehlo.remainder", operands, types, type);
    return {out.select(done, values[0], values[1], aval.dtype, aval.shape),
            out.select(done, zero, rest, aval.dtype, aval.shape)};
  };
  return {out.loop({out.operand(e, 0), out.operand(e, 1)}, {type, type}, has_rest, step)[0]};
}

/// Complex numbers are compared by the real part, and where these are equal by the imaginary one.
Primitive comparison(std::string name, std::string direction, const Primitive& (*self)()) {
  const bool is_order = name != "eq" && name != "ne";
  Primitive p = elementwise({name, "compare", Takes::kAny, self, zero_tangents, not_linear, rules::to_bool});
  p.lower = [direction](Lowering& out, const Equation& e) -> std::vector<std::string> {
    const Aval& aval = out.operand_aval(e, 0);
    return {out.compare(direction, out.operand(e, 0), out.operand(e, 1), aval.dtype, aval.shape)};
  };
  if (!is_order) return p;
  return if_complex(std::move(p), [self](const Values& v) {
    const Value a = lax::real(v[0]), b = lax::real(v[1]);
    return lax::select(lax::eq(a, b), lax::apply1<Value>(self(), {lax::imag(v[0]), lax::imag(v[1])}),
                       lax::apply1<Value>(self(), {a, b}));
  });
}

/// max and min.
Primitive larger_or_smaller(std::string name, std::string stablehlo, const Primitive& (*self)(),
                            const Primitive& (*wins)()) {
  Primitive p = elementwise({std::move(name), std::move(stablehlo), Takes::kAny, self, pick_jvp(wins)});
  return if_complex(std::move(p), [wins](const Values& v) {
    return lax::select(lax::apply1<Value>(wins(), {v[0], v[1]}), v[0], v[1]);
  });
}

Value is_zero(const Value& x) { return lax::eq(x, lax::full_like(x, 0)); }

/// By expm1, so that nothing cancels near 0.
Value sinh_of(const Value& x) {
  return lax::mul(lax::sub(lax::expm1(x), lax::expm1(lax::neg(x))), lax::full_like(x, 0.5));
}
Value cosh_of(const Value& x) {
  const Value sum = lax::add(lax::expm1(x), lax::expm1(lax::neg(x)));
  return lax::mul(lax::add(sum, lax::full_like(x, 2)), lax::full_like(x, 0.5));
}

/// Complex numbers are computed from their parts. On the imaginary axis, a part that is 0 is so also where
/// the other is infinite.
Primitive of_complex_parts(Primitive p, Value (*compose)(const Value& re, const Value& im)) {
  return if_complex(std::move(p),
                    [compose](const Values& v) { return compose(lax::real(v[0]), lax::imag(v[0])); });
}

}  // namespace

const Primitive& neg_p() {
  static const Primitive p = rules::linear_in(
      {{0}}, elementwise({"neg", "negate", Takes::kNumber, neg_p, rules::linear_jvp(neg_p),
                          [](const TransposeCall& c) -> Tangents { return {lax::neg(*c.cotangents[0])}; }}));
  return p;
}

const Primitive& sign_p() {
  static const Primitive p = elementwise({"sign", "sign", Takes::kSignedOrComplex, sign_p, zero_tangents});
  return p;
}

const Primitive& abs_p() {
  static const Primitive p =
      elementwise({"abs", "abs", Takes::kSignedOrComplex, abs_p,
                   unary_jvp([](const Value& t, const Value& x, const Value& y) {
                     if (is_complex(x.aval().dtype)) {
                       // Along z the size grows by the real part of t times conj(z) / |z|; at 0 by nothing.
                       const Value at_zero = lax::eq(y, lax::full_like(y, 0));
                       const Value size = lax::select(at_zero, lax::full_like(y, 1), y);
                       const Value towards = lax::complex(lax::real(x), lax::neg(lax::imag(x)));
                       const Value direction =
                           lax::div(towards, lax::convert_element_type(size, x.aval().dtype));
                       return lax::real(lax::mul(t, direction));
                     }
                     // 1 at 0, as in JAX.
                     return lax::select(lax::ge(x, lax::full_like(x, 0)), t, lax::neg(t));
                   }),
                   not_linear, real_dtype});
  return p;
}

const Primitive& floor_p() {
  static const Primitive p = elementwise({"floor", "floor", Takes::kFloat, floor_p, zero_tangents});
  return p;
}

const Primitive& ceil_p() {
  static const Primitive p = elementwise({"ceil", "ceil", Takes::kFloat, ceil_p, zero_tangents});
  return p;
}

const Primitive& round_p() {
  static const Primitive p =
      elementwise({"round", "round_nearest_even", Takes::kFloat, round_p, zero_tangents});
  return p;
}

const Primitive& exp_p() {
  static const Primitive p =
      elementwise({"exp", "exponential", Takes::kInexact, exp_p,
                   unary_jvp([](const Value& t, const Value&, const Value& y) { return lax::mul(t, y); })});
  return p;
}

const Primitive& expm1_p() {
  static const Primitive p = elementwise({"expm1", "exponential_minus_one", Takes::kInexact, expm1_p,
                                          unary_jvp([](const Value& t, const Value&, const Value& y) {
                                            return lax::mul(t, lax::add(y, lax::full_like(y, 1)));
                                          })});
  return p;
}

const Primitive& log_p() {
  static const Primitive p = by_sleef(
      elementwise({"log", "log", Takes::kInexact, log_p,
                   unary_jvp([](const Value& t, const Value& x, const Value&) { return lax::div(t, x); })}));
  return p;
}

const Primitive& log1p_p() {
  static const Primitive p = elementwise({"log1p", "log_plus_one", Takes::kInexact, log1p_p,
                                          unary_jvp([](const Value& t, const Value& x, const Value&) {
                                            return lax::div(t, lax::add(x, lax::full_like(x, 1)));
                                          })});
  return p;
}

const Primitive& tanh_p() {
  static const Primitive p = elementwise(
      {"tanh", "tanh", Takes::kInexact, tanh_p, unary_jvp([](const Value& t, const Value&, const Value& y) {
         // One factor, so that a gradient keeps one array; 1 - y y would cancel near 1.
         const Value one = lax::full_like(y, 1);
         return lax::mul(t, lax::mul(lax::add(one, y), lax::sub(one, y)));
       })});
  return p;
}

const Primitive& logistic_p() {
  static const Primitive p =
      elementwise({"logistic", "logistic", Takes::kInexact, logistic_p,
                   unary_jvp([](const Value& t, const Value&, const Value& y) {
                     return lax::mul(t, lax::mul(y, lax::sub(lax::full_like(y, 1), y)));
                   })});
  return p;
}

const Primitive& sqrt_p() {
  static const Primitive p = elementwise(
      {"sqrt", "sqrt", Takes::kInexact, sqrt_p, unary_jvp([](const Value& t, const Value&, const Value& y) {
         return lax::mul(t, lax::div(lax::full_like(y, 0.5), y));
       })});
  return p;
}

const Primitive& rsqrt_p() {
  static const Primitive p =
      elementwise({"rsqrt", "rsqrt", Takes::kInexact, rsqrt_p,
                   unary_jvp([](const Value& t, const Value& x, const Value& y) {
                     return lax::mul(t, lax::mul(lax::full_like(x, -0.5), lax::div(y, x)));
                   })});
  return p;
}

const Primitive& sin_p() {
  static const Primitive p = by_sleef(of_complex_parts(
      elementwise(
          {"sin", "sine", Takes::kInexact, sin_p,
           unary_jvp([](const Value& t, const Value& x, const Value&) { return lax::mul(t, lax::cos(x)); })}),
      [](const Value& a, const Value& b) {
        const Value re = lax::mul(lax::sin(a), cosh_of(b)), im = lax::mul(lax::cos(a), sinh_of(b));
        return lax::complex(lax::select(is_zero(a), lax::full_like(a, 0), re), im);
      }));
  return p;
}

const Primitive& cos_p() {
  static const Primitive p =
      by_sleef(of_complex_parts(elementwise({"cos", "cosine", Takes::kInexact, cos_p,
                                             unary_jvp([](const Value& t, const Value& x, const Value&) {
                                               return lax::neg(lax::mul(t, lax::sin(x)));
                                             })}),
                                [](const Value& a, const Value& b) {
                                  const Value re = lax::mul(lax::cos(a), cosh_of(b)),
                                              im = lax::mul(lax::neg(lax::sin(a)), sinh_of(b));
                                  return lax::complex(re, lax::select(is_zero(a), lax::full_like(a, 0), im));
                                }));
  return p;
}

const Primitive& is_finite_p() {
  static const Primitive p = elementwise(
      {"is_finite", "is_finite", Takes::kFloat, is_finite_p, zero_tangents, not_linear, rules::to_bool});
  return p;
}

const Primitive& logical_not_p() {
  static const Primitive p = elementwise({"logical_not", "not", Takes::kBits, logical_not_p, zero_tangents});
  return p;
}

const Primitive& add_p() {
  static const Primitive p =
      rules::linear_in({{0, 1}}, elementwise({"add", "add", Takes::kNumber, add_p,
                                              binary_jvp([](const Value& t, const JvpCall&) { return t; },
                                                         [](const Value& t, const JvpCall&) { return t; }),
                                              [](const TransposeCall& c) -> Tangents {
                                                Tangents out(2);
                                                for (int i : {0, 1}) {
                                                  if (c.operands[i].linear()) out[i] = c.cotangents[0];
                                                }
                                                return out;
                                              }}));
  return p;
}

const Primitive& sub_p() {
  static const Primitive p = rules::linear_in(
      {{0, 1}}, elementwise({"sub", "subtract", Takes::kNumber, sub_p,
                             binary_jvp([](const Value& t, const JvpCall&) { return t; },
                                        [](const Value& t, const JvpCall&) { return lax::neg(t); }),
                             [](const TransposeCall& c) -> Tangents {
                               Tangents out(2);
                               if (c.operands[0].linear()) out[0] = c.cotangents[0];
                               if (c.operands[1].linear()) out[1] = lax::neg(*c.cotangents[0]);
                               return out;
                             }}));
  return p;
}

const Primitive& mul_p() {
  static const Primitive p = rules::linear_in(
      {{0}, {1}},
      elementwise({"mul", "multiply", Takes::kNumber, mul_p,
                   binary_jvp([](const Value& t, const JvpCall& c) { return lax::mul(t, c.inputs[1]); },
                              [](const Value& t, const JvpCall& c) { return lax::mul(c.inputs[0], t); }),
                   [](const TransposeCall& c) -> Tangents {
                     Tangents out(2);
                     if (c.operands[0].linear()) out[0] = lax::mul(*c.cotangents[0], *c.operands[1].value);
                     if (c.operands[1].linear()) out[1] = lax::mul(*c.operands[0].value, *c.cotangents[0]);
                     return out;
                   }}));
  return p;
}

const Primitive& div_p() {
  static const Primitive p = rules::linear_in(
      {{0}},
      elementwise({"div", "divide", Takes::kNumber, div_p,
                   binary_jvp([](const Value& t, const JvpCall& c) { return lax::div(t, c.inputs[1]); },
                              [](const Value& t, const JvpCall& c) {
                                return lax::neg(lax::mul(t, lax::div(c.outputs[0], c.inputs[1])));
                              }),
                   [](const TransposeCall& c) -> Tangents {
                     return {lax::div(*c.cotangents[0], *c.operands[1].value), std::nullopt};
                   }}));
  return p;
}

const Primitive& gcd_p() {
  static const Primitive p = [] {
    Primitive gcd = elementwise({"gcd", "", Takes::kInteger, gcd_p, zero_tangents});
    gcd.lower = euclid;
    return gcd;
  }();
  return p;
}

const Primitive& rem_p() {
  static const Primitive p =
      elementwise({"rem", "remainder", Takes::kReal, rem_p,
                   binary_jvp([](const Value& t, const JvpCall&) { return t; },
                              [](const Value& t, const JvpCall& c) {
                                Value ratio = lax::div(c.inputs[0], c.inputs[1]);
                                Value whole = lax::mul(lax::sign(ratio), lax::floor(lax::abs(ratio)));
                                return lax::neg(lax::mul(t, whole));
                              })});
  return p;
}

const Primitive& pow_p() {
  static const Primitive p = by_sleef(
      elementwise({"pow", "power", Takes::kNumber, pow_p,
                   binary_jvp(
                       [](const Value& t, const JvpCall& c) {
                         // y * x^(y-1): NaN where both are 0, as in JAX.
                         const Value &x = c.inputs[0], &y = c.inputs[1];
                         return lax::mul(t, lax::mul(y, lax::pow(x, lax::sub(y, lax::full_like(y, 1)))));
                       },
                       [](const Value& t, const JvpCall& c) {
                         // log(x) * x^y, and 0 at x = 0.
                         const Value& x = c.inputs[0];
                         Value safe = lax::select(lax::eq(x, lax::full_like(x, 0)), lax::full_like(x, 1), x);
                         return lax::mul(t, lax::mul(lax::log(safe), c.outputs[0]));
                       })}));
  return p;
}

const Primitive& max_p() {
  static const Primitive p = larger_or_smaller("max", "maximum", max_p, gt_p);
  return p;
}

const Primitive& min_p() {
  static const Primitive p = larger_or_smaller("min", "minimum", min_p, lt_p);
  return p;
}

const Primitive& logical_and_p() {
  static const Primitive p = elementwise({"logical_and", "and", Takes::kBits, logical_and_p, zero_tangents});
  return p;
}

const Primitive& logical_or_p() {
  static const Primitive p = elementwise({"logical_or", "or", Takes::kBits, logical_or_p, zero_tangents});
  return p;
}

const Primitive& logical_xor_p() {
  static const Primitive p = elementwise({"logical_xor", "xor", Takes::kBits, logical_xor_p, zero_tangents});
  return p;
}

const Primitive& shift_left_p() {
  static const Primitive p =
      elementwise({"shift_left", "shift_left", Takes::kInteger, shift_left_p, zero_tangents});
  return p;
}

const Primitive& shift_right_logical_p() {
  static const Primitive p = elementwise(
      {"shift_right_logical", "shift_right_logical", Takes::kInteger, shift_right_logical_p, zero_tangents});
  return p;
}

const Primitive& shift_right_arithmetic_p() {
  static const Primitive p = elementwise({"shift_right_arithmetic", "shift_right_arithmetic", Takes::kInteger,
                                          shift_right_arithmetic_p, zero_tangents});
  return p;
}

const Primitive& eq_p() {
  static const Primitive p = comparison("eq", "EQ", eq_p);
  return p;
}
const Primitive& ne_p() {
  static const Primitive p = comparison("ne", "NE", ne_p);
  return p;
}
const Primitive& lt_p() {
  static const Primitive p = comparison("lt", "LT", lt_p);
  return p;
}
const Primitive& le_p() {
  static const Primitive p = comparison("le", "LE", le_p);
  return p;
}
const Primitive& gt_p() {
  static const Primitive p = comparison("gt", "GT", gt_p);
  return p;
}
const Primitive& ge_p() {
  static const Primitive p = comparison("ge", "GE", ge_p);
  return p;
}

const Primitive& select_p() {
  static const Primitive p = {
      .name = "select",
      .shape = [](std::span<const Aval> inputs, const OpParams&) -> std::vector<Aval> {
        if (inputs[0].dtype != DType::kBool) {
          fail<DTypeError>("expected bools to choose by, got {}", to_string(inputs[0]));
        }
        rules::same_dtypes(inputs.subspan(1));
        rules::same_shapes(inputs);
        Aval out{inputs[1].dtype, inputs[1].shape};
        out.weak_type = inputs[1].weak_type && inputs[2].weak_type;
        return {out};
      },
      .sharding = [](std::span<const Aval> inputs, std::span<const Aval> outputs,
                     const OpParams&) { return ShardingRule::elementwise(inputs, outputs); },
      .jvp = [](const JvpCall& c) -> Tangents {
        if (!c.tangents[1] && !c.tangents[2]) return {std::nullopt};
        Value zero = lax::full_like(c.outputs[0], 0);
        return {lax::select(c.inputs[0], c.tangents[1].value_or(zero), c.tangents[2].value_or(zero))};
      },
      .transpose = [](const TransposeCall& c) -> Tangents {
        Tangents out(3);
        const Value& ct = *c.cotangents[0];
        Value zero = lax::full_like(ct, 0);
        if (c.operands[1].linear()) out[1] = lax::select(*c.operands[0].value, ct, zero);
        if (c.operands[2].linear()) out[2] = lax::select(*c.operands[0].value, zero, ct);
        return out;
      },
      .batching = [](const BatchCall& call) { return rules::batch_elementwise(select_p(), call); },
      .flops = flops_of_results,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = rules::lower_as("select"),
      .by_element = true,
      .linear = {.together = {{1, 2}}, .moves = true},
  };
  return p;
}

const Primitive& convert_element_type_p() {
  static const Primitive p = {
      .name = "convert_element_type",
      .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
        const auto& to = params.as<ConvertParams>();
        return {Aval{to.dtype, inputs[0].shape, to.weak_type, {}}};
      },
      .sharding = [](std::span<const Aval> inputs, std::span<const Aval> outputs,
                     const OpParams&) { return ShardingRule::elementwise(inputs, outputs); },
      .jvp = [](const JvpCall& c) -> Tangents {
        if (!c.tangents[0] || !is_inexact(c.outputs[0].aval().dtype)) return {std::nullopt};
        return {lax::convert_element_type(*c.tangents[0], c.params.as<ConvertParams>().dtype)};
      },
      .transpose = [](const TransposeCall& c) -> Tangents {
        return {lax::convert_element_type(*c.cotangents[0], c.operands[0].aval.dtype)};
      },
      .batching =
          [](const BatchCall& call) { return rules::batch_elementwise(convert_element_type_p(), call); },
      .flops = flops_of_results,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const Aval &from = out.operand_aval(e, 0), &to = out.result_aval(e);
        if (from.dtype == to.dtype) return {out.operand(e, 0)};
        if (to.dtype == DType::kBool) {
          std::string zero = out.splat(Scalar::of(0), from.dtype, from.shape);
          return {out.compare("NE", out.operand(e, 0), zero, from.dtype, from.shape)};
        }
        if (!is_complex(from.dtype) || is_complex(to.dtype)) return {out.op("stablehlo.convert", e)};
        // XLA's constant folding of `convert` reads past the end of a complex constant, so the real part is
        // taken first.
        const std::string complex[] = {out.operand(e, 0)}, complex_type[] = {mlir_type(from)};
        const std::string real_type[] = {mlir_type({real_dtype(from.dtype), from.shape, false, {}})};
        const std::string real[] = {out.op("stablehlo.real", complex, complex_type, real_type[0])};
        if (to.dtype == real_dtype(from.dtype)) return {real[0]};
        return {out.op("stablehlo.convert", real, real_type, mlir_type(to))};
      },
      .by_element = true,
      .linear = {.together = {{0}}},
  };
  return p;
}

const Primitive& stop_gradient_p() {
  static const Primitive p = {
      .name = "stop_gradient",
      .shape = [](std::span<const Aval> inputs, const OpParams&) -> std::vector<Aval> { return {inputs[0]}; },
      .sharding = [](std::span<const Aval> inputs, std::span<const Aval> outputs,
                     const OpParams&) { return ShardingRule::elementwise(inputs, outputs); },
      .jvp = zero_tangents,
      .transpose = not_linear,
      .batching = [](const BatchCall& call) { return rules::batch_elementwise(stop_gradient_p(), call); },
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        return {out.operand(e, 0)};
      },
      .by_element = true,
  };
  return p;
}

}  // namespace lockstep::ir
