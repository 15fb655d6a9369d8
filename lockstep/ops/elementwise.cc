// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/elementwise.h"

#include <optional>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/arithmetic.h"
#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/special.h"

namespace lockstep {
namespace {

using ops::Meet;
using ops::Tracers;

/// Bools have a primitive of their own.
Array binary(const std::string& name, const ir::Primitive& primitive, const ir::Primitive& of_bools,
             const Operand& x, const Operand& y) {
  return ops::elementwise(name, "", Meet::kPromote, {&x, &y}, [&](Tracers t) {
    return ir::lax::apply1<Array>(t[0].dtype() == DType::kBool ? of_bools : primitive, {t[0], t[1]});
  });
}

/// Rounds x; whole numbers are returned unchanged.
Array rounding(const std::string& name, const ir::Primitive& primitive, const Operand& x) {
  return ops::elementwise(name, "", Meet::kPromote, {&x}, [&](Tracers t) {
    return is_inexact(t[0].dtype()) ? ir::lax::apply1<Array>(primitive, {t[0]}) : t[0];
  });
}

Array zeros(const Array& like) { return ir::lax::full_like(like, 0); }

/// The remainder with the sign of y, of the one with the sign of x.
Array with_sign_of(const Array& rem, const Array& y) {
  Array differs = ir::lax::ne(ir::lax::lt(rem, zeros(rem)), ir::lax::lt(y, zeros(y)));
  return ir::lax::select(ir::lax::logical_and(differs, ir::lax::ne(rem, zeros(rem))), ir::lax::add(rem, y),
                         rem);
}

/// x to the power of y, of whole numbers. As in JAX an exponent counts with its last 6 bits, for more
/// overflow; XLA's power does the same, but takes unsigned ones of the upper half for negative.
Array whole_power(const Array& x, const Array& y) {
  const bool is_unsigned = info(y.dtype()).kind == DTypeKind::kUnsigned;
  const Array last = is_unsigned ? ir::lax::logical_and(y, ir::lax::full_like(y, 63)) : y;
  const Array zero = ir::lax::logical_and(ir::lax::eq(x, zeros(x)), ir::lax::gt(y, zeros(y)));
  return ir::lax::select(zero, zeros(x), ir::lax::pow(x, last));
}

}  // namespace

Array add(const Operand& x, const Operand& y) { return binary("add", ir::add_p(), ir::logical_or_p(), x, y); }
Array multiply(const Operand& x, const Operand& y) {
  return binary("multiply", ir::mul_p(), ir::logical_and_p(), x, y);
}
Array subtract(const Operand& x, const Operand& y) {
  return ops::elementwise("subtract", Meet::kPromote, ir::sub_p(), {&x, &y});
}
Array divide(const Operand& x, const Operand& y) {
  return ops::elementwise("divide", Meet::kInexact, ir::div_p(), {&x, &y});
}
Array maximum(const Operand& x, const Operand& y) {
  return ops::elementwise("maximum", Meet::kPromote, ir::max_p(), {&x, &y});
}
Array minimum(const Operand& x, const Operand& y) {
  return ops::elementwise("minimum", Meet::kPromote, ir::min_p(), {&x, &y});
}

Array floor_divide(const Operand& x, const Operand& y) {
  return ops::elementwise("floor_divide", "", Meet::kNumbers, {&x, &y}, [](Tracers t) {
    if (is_inexact(t[0].dtype())) return ops::float_divmod(t[0], t[1]).first;
    Array rem = ir::lax::rem(t[0], t[1]), quotient = ir::lax::div(t[0], t[1]);
    if (info(rem.dtype()).kind != DTypeKind::kSigned) return quotient;
    Array differs = ir::lax::ne(ir::lax::sign(rem), ir::lax::sign(t[1]));
    Array down = ir::lax::logical_and(differs, ir::lax::ne(rem, zeros(rem)));
    return ir::lax::select(down, ir::lax::sub(quotient, ir::lax::full_like(quotient, 1)), quotient);
  });
}

Array remainder(const Operand& x, const Operand& y) {
  return ops::elementwise("remainder", "", Meet::kNumbers, {&x, &y}, [](Tracers t) {
    const Array by = ops::divisor(t[1]);
    return with_sign_of(ir::lax::rem(t[0], by), by);
  });
}

Array power(const Operand& x, const Operand& y) {
  if (!y.is_integer_number()) {
    const bool whole = is_integer(y.type().dtype);
    return ops::elementwise("power", whole ? "whole" : "", Meet::kNumbers, {&x, &y}, [whole](Tracers t) {
      if (!is_inexact(t[0].dtype())) return whole_power(t[0], t[1]);
      if (!whole) return ir::lax::pow(t[0], t[1]);
      // An integer exponent of 0 gives 1 for any x, and the derivative 0.
      const Array one = ir::lax::full_like(t[1], 1), none = ir::lax::eq(t[1], zeros(t[1]));
      return ir::lax::select(none, one, ir::lax::pow(t[0], ir::lax::select(none, one, t[1])));
    });
  }
  const std::int64_t n = y.integer();
  return ops::elementwise("power", fmt::format("n={}", n), Meet::kNumbers, {&x}, [n](Tracers t) {
    const Array& base = t[0];
    if (n < 0 && !is_inexact(base.dtype())) {
      fail<DTypeError>("[power] {} is an array of whole numbers, and {} is below 0{}; convert it with astype",
                       to_string(base.aval()), n, ops::at());
    }
    return n == 1 ? base : ir::lax::integer_pow(base, n);
  });
}

Array clip(const Operand& x, const Operand& low, const Operand& high) {
  const DType dtype = x.type().dtype;
  if (is_integer(dtype) && !x.is_number()) {
    // A bound beyond the dtype's numbers bounds nothing.
    const auto bound = [&](const Operand& given, bool is_low) -> std::optional<Operand> {
      if (!given.is_integer_number() || holds(dtype, given.integer())) return std::nullopt;
      if ((given.integer() < 0) != is_low) return std::nullopt;
      const std::int64_t end = ir::rules::extreme(dtype, is_low ? -1 : 1).integer;
      return Operand(end, given.where());
    };
    const auto least = bound(low, true), most = bound(high, false);
    if (least || most) return clip(x, least.value_or(low), most.value_or(high));
  }
  return ops::elementwise("clip", "", Meet::kPromote, {&x, &low, &high},
                          [](Tracers t) { return ir::lax::min(ir::lax::max(t[0], t[1]), t[2]); });
}

Array negative(const Operand& x) { return ops::elementwise("negative", Meet::kPromote, ir::neg_p(), {&x}); }
Array sign(const Operand& x) {
  return ops::elementwise("sign", "", Meet::kPromote, {&x}, [](Tracers t) {
    const DType dtype = t[0].dtype();
    if (info(dtype).kind != DTypeKind::kUnsigned) return ir::lax::sign(t[0]);
    return ir::lax::convert_element_type(ir::lax::ne(t[0], zeros(t[0])), dtype);
  });
}
Array square(const Operand& x) {
  return ops::elementwise("square", "", Meet::kNumbers, {&x}, [](Tracers t) {
    return is_complex(t[0].dtype()) ? ir::lax::complex_square(t[0]) : ir::lax::mul(t[0], t[0]);
  });
}
Array abs(const Operand& x) {
  return ops::elementwise("abs", "", Meet::kPromote, {&x}, [](Tracers t) {
    DTypeKind kind = info(t[0].dtype()).kind;
    return kind == DTypeKind::kUnsigned || kind == DTypeKind::kBool ? t[0] : ir::lax::abs(t[0]);
  });
}

Array floor(const Operand& x) { return rounding("floor", ir::floor_p(), x); }
Array ceil(const Operand& x) { return rounding("ceil", ir::ceil_p(), x); }
Array round(const Operand& x) {
  return ops::elementwise("round", "", Meet::kPromote, {&x}, [](Tracers t) {
    if (is_complex(t[0].dtype()))
      return ir::lax::complex(ir::lax::round(ir::lax::real(t[0])), ir::lax::round(ir::lax::imag(t[0])));
    return is_inexact(t[0].dtype()) ? ir::lax::round(t[0]) : t[0];
  });
}

Array exp(const Operand& x) { return ops::elementwise("exp", Meet::kInexact, ir::exp_p(), {&x}); }
Array expm1(const Operand& x) { return ops::elementwise("expm1", Meet::kInexact, ir::expm1_p(), {&x}); }
Array log(const Operand& x) { return ops::elementwise("log", Meet::kInexact, ir::log_p(), {&x}); }
Array log1p(const Operand& x) { return ops::elementwise("log1p", Meet::kInexact, ir::log1p_p(), {&x}); }
Array tanh(const Operand& x) { return ops::elementwise("tanh", Meet::kInexact, ir::tanh_p(), {&x}); }
Array sigmoid(const Operand& x) {
  return ops::elementwise("sigmoid", Meet::kInexact, ir::logistic_p(), {&x});
}
Array sqrt(const Operand& x) { return ops::elementwise("sqrt", Meet::kInexact, ir::sqrt_p(), {&x}); }
Array rsqrt(const Operand& x) { return ops::elementwise("rsqrt", Meet::kInexact, ir::rsqrt_p(), {&x}); }
Array sin(const Operand& x) { return ops::elementwise("sin", Meet::kInexact, ir::sin_p(), {&x}); }
Array cos(const Operand& x) { return ops::elementwise("cos", Meet::kInexact, ir::cos_p(), {&x}); }

Array reciprocal(const Operand& x) {
  return ops::elementwise("reciprocal", "", Meet::kInexact, {&x},
                          [](Tracers t) { return ir::lax::integer_pow(t[0], -1); });
}

Array logaddexp(const Operand& x, const Operand& y) {
  return ops::elementwise("logaddexp", Meet::kInexact, ir::logaddexp_p(), {&x, &y});
}

Array astype(const Operand& x, DType dtype) {
  CallSiteScope here(x.site());
  if (x.is_number()) {
    ElementType type = x.type();
    if (is_floating(type.dtype) && is_inexact(dtype)) type.dtype = dtype;
    return ops::run("astype", std::string(name(dtype)), {x.as_array(type)},
                    [dtype](Tracers t) { return ir::lax::convert_element_type(t[0], dtype); });
  }
  if (x.type() == ElementType{dtype, false}) return x.as_array();
  return ops::run("astype", std::string(name(dtype)), {x.as_array()},
                  [dtype](Tracers t) { return ir::lax::convert_element_type(t[0], dtype); });
}

Array stop_gradient(const Operand& x) {
  if (!is_inexact(x.type().dtype)) return x.as_array();
  return ops::elementwise("stop_gradient", Meet::kPromote, ir::stop_gradient_p(), {&x});
}

}  // namespace lockstep
