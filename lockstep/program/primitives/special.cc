// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/special.h"

#include <cmath>
#include <numbers>

#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/elementwise_family.h"
#include "lockstep/program/primitives/functions_on_cpus.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ir {
namespace {

using rules::elementwise;
using rules::Takes;
using rules::unary_jvp;

/// `factor * exp(sign * x²)`, times t: the derivatives of the error functions.
Value bell(const Value& t, const Value& x, double factor, double sign) {
  Value exponent = lax::mul(lax::full_like(x, sign), lax::mul(x, x));
  return lax::mul(t, lax::mul(lax::full_like(x, factor), lax::exp(exponent)));
}

Value squared(const Value& x) { return is_complex(x.aval().dtype) ? lax::complex_square(x) : lax::mul(x, x); }

/// An operation of CHLO, whose operands are all as the result; of numbers of 8 bits in f32, for which CHLO
/// has it.
std::string chlo(Lowering& out, std::string_view op, const Aval& result, std::vector<std::string> operands) {
  const std::string type = mlir_type(result);
  const bool narrow = size_of(result.dtype) == 1;
  const std::string computed = narrow ? mlir_type(DType::kF32, result.shape) : type;
  if (narrow) {
    for (std::string& operand : operands) {
      const std::string one[] = {operand}, types[] = {type};
      operand = out.op("stablehlo.convert", one, types, computed);
    }
  }
  const std::vector<std::string> types(operands.size(), computed);
  const std::string value = out.op(op, operands, types, computed);
  if (!narrow) return value;
  const std::string one[] = {value}, from[] = {computed};
  return out.op("stablehlo.convert", one, from, type);
}

Primitive of_chlo(Primitive p, const std::string& op) {
  p.lower = [op](Lowering& out, const Equation& e) -> std::vector<std::string> {
    return {chlo(out, op, out.result_aval(e), {out.operand(e, 0)})};
  };
  return p;
}

}  // namespace

const Primitive& cbrt_p() {
  static const Primitive p = by_sleef(elementwise(
      {"cbrt", "cbrt", Takes::kFloat, cbrt_p, unary_jvp([](const Value& t, const Value&, const Value& y) {
         return lax::mul(t, lax::mul(lax::full_like(y, 1.0 / 3), lax::integer_pow(y, -2)));
       })}));
  return p;
}

/// If x is the constant 1, XLA's CPU compiler calls a vector arc tangent that it has compiled for narrower
/// registers than the caller's, and the results are wrong. So x is hidden behind a selection that does not
/// change the result: of y where y is NaN.
std::string real_atan2(Lowering& out, const Aval& aval, const std::string& y, const std::string& given_x) {
  const std::string type = mlir_type(aval);
  const std::string is_nan = out.compare("NE", y, y, aval.dtype, aval.shape);
  const std::string x = out.select(is_nan, y, given_x, aval.dtype, aval.shape);
  const std::string operands[] = {y, x}, types[] = {type, type};
  return out.op("stablehlo.atan2", operands, types, type);
}

std::vector<std::string> lower_atan2(Lowering& out, const Equation& e) {
  const Aval& aval = out.result_aval(e);
  if (is_complex(aval.dtype)) return {out.op("stablehlo.atan2", e)};
  return {real_atan2(out, aval, out.operand(e, 0), out.operand(e, 1))};
}

const Primitive& atan2_p() {
  static const Primitive p = by_sleef([] {
    Primitive p =
        elementwise({"atan2", "atan2", Takes::kInexact, atan2_p,
                     rules::binary_jvp(
                         [](const Value& t, const JvpCall& c) {
                           const Value &y = c.inputs[0], &x = c.inputs[1];
                           return lax::mul(t, lax::div(x, lax::add(squared(x), squared(y))));
                         },
                         [](const Value& t, const JvpCall& c) {
                           const Value &y = c.inputs[0], &x = c.inputs[1];
                           return lax::mul(t, lax::div(lax::neg(y), lax::add(squared(x), squared(y))));
                         })});
    p.lower = lower_atan2;
    return p;
  }());
  return p;
}

namespace {

/// A function of one operand that CHLO has.
Primitive unary_of_chlo(const std::string& name, const Primitive& (*self)(), rules::Jvp jvp) {
  return of_chlo(elementwise({name, "", Takes::kInexact, self, std::move(jvp)}), "chlo." + name);
}

Value one_like(const Value& like) { return lax::full_like(like, 1); }

}  // namespace

const Primitive& complex_square_p() {
  static const Primitive p = of_chlo(elementwise({"complex_square", "", Takes::kComplex, complex_square_p,
                                                  unary_jvp([](const Value& t, const Value& x, const Value&) {
                                                    return lax::mul(t, lax::mul(lax::full_like(x, 2), x));
                                                  })}),
                                     "chlo.square");
  return p;
}

const Primitive& tan_p() {
  static const Primitive p = by_sleef(elementwise(
      {"tan", "tan", Takes::kInexact, tan_p, unary_jvp([](const Value& t, const Value&, const Value& y) {
         return lax::mul(t, lax::add(one_like(y), squared(y)));
       })}));
  return p;
}

const Primitive& asin_p() {
  static const Primitive p =
      by_sleef(unary_of_chlo("asin", asin_p, unary_jvp([](const Value& t, const Value& x, const Value&) {
                               return lax::mul(t, lax::rsqrt(lax::sub(one_like(x), squared(x))));
                             })));
  return p;
}

const Primitive& acos_p() {
  static const Primitive p =
      by_sleef(unary_of_chlo("acos", acos_p, unary_jvp([](const Value& t, const Value& x, const Value&) {
                               return lax::mul(t, lax::neg(lax::rsqrt(lax::sub(one_like(x), squared(x)))));
                             })));
  return p;
}

/// CHLO's is an atan2 whose second operand is the constant 1: see lower_atan2.
const Primitive& atan_p() {
  static const Primitive p = by_sleef([] {
    Primitive p = unary_of_chlo("atan", atan_p, unary_jvp([](const Value& t, const Value& x, const Value&) {
                                  return lax::div(t, lax::add(one_like(x), squared(x)));
                                }));
    p.lower = [of_complex = p.lower](Lowering& out, const Equation& e) -> std::vector<std::string> {
      const Aval& aval = out.result_aval(e);
      if (is_complex(aval.dtype)) return of_complex(out, e);
      return {real_atan2(out, aval, out.operand(e, 0), out.splat(Scalar::of(1.0), aval.dtype, aval.shape))};
    };
    return p;
  }());
  return p;
}

const Primitive& sinh_p() {
  static const Primitive p =
      by_sleef(unary_of_chlo("sinh", sinh_p, unary_jvp([](const Value& t, const Value& x, const Value&) {
                               return lax::mul(t, lax::apply1<Value>(cosh_p(), {x}));
                             })));
  return p;
}

const Primitive& cosh_p() {
  static const Primitive p =
      unary_of_chlo("cosh", cosh_p, unary_jvp([](const Value& t, const Value& x, const Value&) {
                      return lax::mul(t, lax::apply1<Value>(sinh_p(), {x}));
                    }));
  return p;
}

const Primitive& asinh_p() {
  static const Primitive p =
      unary_of_chlo("asinh", asinh_p, unary_jvp([](const Value& t, const Value& x, const Value&) {
                      return lax::mul(t, lax::rsqrt(lax::add(squared(x), one_like(x))));
                    }));
  return p;
}

const Primitive& acosh_p() {
  static const Primitive p =
      unary_of_chlo("acosh", acosh_p, unary_jvp([](const Value& t, const Value& x, const Value&) {
                      return lax::mul(t, lax::rsqrt(lax::sub(squared(x), one_like(x))));
                    }));
  return p;
}

const Primitive& atanh_p() {
  static const Primitive p =
      unary_of_chlo("atanh", atanh_p, unary_jvp([](const Value& t, const Value& x, const Value&) {
                      const Value by_sum = lax::integer_pow(lax::add(one_like(x), x), -1);
                      return lax::mul(by_sum, lax::div(t, lax::sub(one_like(x), x)));
                    }));
  return p;
}

const Primitive& erf_p() {
  static const Primitive p =
      by_sleef(of_chlo(elementwise({"erf", "", Takes::kFloat, erf_p,
                                    unary_jvp([](const Value& t, const Value& x, const Value&) {
                                      return bell(t, x, 2 * std::numbers::inv_sqrtpi, -1);
                                    })}),
                       "chlo.erf"));
  return p;
}

const Primitive& erfc_p() {
  static const Primitive p = of_chlo(elementwise({"erfc", "", Takes::kFloat, erfc_p,
                                                  unary_jvp([](const Value& t, const Value& x, const Value&) {
                                                    return bell(t, x, -2 * std::numbers::inv_sqrtpi, -1);
                                                  })}),
                                     "chlo.erfc");
  return p;
}

const Primitive& erf_inv_p() {
  static const Primitive p = of_chlo(elementwise({"erf_inv", "", Takes::kFloat, erf_inv_p,
                                                  unary_jvp([](const Value& t, const Value&, const Value& y) {
                                                    return bell(t, y, 0.5 / std::numbers::inv_sqrtpi, 1);
                                                  })}),
                                     "chlo.erf_inv");
  return p;
}

const Primitive& lgamma_p() {
  static const Primitive p = of_chlo(elementwise({"lgamma", "", Takes::kFloat, lgamma_p,
                                                  unary_jvp([](const Value& t, const Value& x, const Value&) {
                                                    return lax::mul(t, lax::polygamma(0, x));
                                                  })}),
                                     "chlo.lgamma");
  return p;
}

const Primitive& polygamma_p() {
  static const Primitive p = [] {
    Primitive p = elementwise({"polygamma", "", Takes::kFloat, polygamma_p, [](const JvpCall& c) -> Tangents {
                                 if (!c.tangents[0]) return {std::nullopt};
                                 const std::int64_t order = c.params.as<PolygammaParams>().order;
                                 return {lax::mul(*c.tangents[0], lax::polygamma(order + 1, c.inputs[0]))};
                               }});
    p.lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
      const std::int64_t order = e.params.as<PolygammaParams>().order;
      const Aval& x = out.operand_aval(e, 0);
      if (order == 0) return {chlo(out, "chlo.digamma", x, {out.operand(e, 0)})};
      const std::string orders = out.splat(Scalar::of(static_cast<double>(order)), x.dtype, x.shape);
      return {chlo(out, "chlo.polygamma", x, {orders, out.operand(e, 0)})};
    };
    return p;
  }();
  return p;
}

}  // namespace lockstep::ir
