// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/primitives/apply.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ir {

/// More elementwise primitives. The plugin has them as CHLO operations, with JAX's polynomials.
const Primitive& cbrt_p();
const Primitive& atan2_p();
const Primitive& tan_p();
const Primitive& asin_p();
const Primitive& acos_p();
const Primitive& atan_p();
const Primitive& sinh_p();
const Primitive& cosh_p();
const Primitive& asinh_p();
const Primitive& acosh_p();
const Primitive& atanh_p();
const Primitive& erf_p();
const Primitive& erfc_p();
const Primitive& erf_inv_p();
const Primitive& lgamma_p();
const Primitive& polygamma_p();
const Primitive& complex_square_p();

/// Compositions of others with derivatives of their own.
const Primitive& integer_pow_p();
const Primitive& logaddexp_p();
const Primitive& logaddexp2_p();
const Primitive& xlogy_p();
const Primitive& xlog1py_p();
const Primitive& entr_p();
const Primitive& logit_p();
const Primitive& betaln_p();
const Primitive& ndtri_p();
const Primitive& hypot_p();

struct IntegerPowParams {
  static constexpr std::array<std::string_view, 1> kFields = {"n"};
  std::int64_t n;
};

struct PolygammaParams {
  static constexpr std::array<std::string_view, 1> kFields = {"order"};
  std::int64_t order;
};

namespace lax {

/// For floating operands. cbrt is the cube root, also of negative numbers; erfc is 1 - erf; lgamma is the
/// logarithm of the gamma function's absolute value.
template <Operand V>
V cbrt(const V& x) {
  return apply1<V>(cbrt_p(), {x});
}
template <Operand V>
V erf(const V& x) {
  return apply1<V>(erf_p(), {x});
}
template <Operand V>
V erfc(const V& x) {
  return apply1<V>(erfc_p(), {x});
}
template <Operand V>
V erf_inv(const V& x) {
  return apply1<V>(erf_inv_p(), {x});
}
template <Operand V>
V lgamma(const V& x) {
  return apply1<V>(lgamma_p(), {x});
}

/// The derivative of lgamma (order 0: digamma), or the derivative of digamma of this order.
template <Operand V>
V polygamma(std::int64_t order, const V& x) {
  return apply1<V>(polygamma_p(), OpParams::of(PolygammaParams{order}), {x});
}

/// The angle of the point (x, y), in [-pi, pi].
template <Operand V>
V atan2(const V& y, const V& x) {
  return apply1<V>(atan2_p(), {y, x});
}

/// x to the power of n, by squaring; of integers n must not be negative.
template <Operand V>
V integer_pow(const V& x, std::int64_t n) {
  return apply1<V>(integer_pow_p(), OpParams::of(IntegerPowParams{n}), {x});
}

/// x * x of complex numbers, also where a part is infinite.
template <Operand V>
V complex_square(const V& x) {
  return apply1<V>(complex_square_p(), {x});
}

/// log(exp(x) + exp(y)), without overflow, also for infinities, and with derivatives of any order.
template <Operand V>
V logaddexp(const V& x, const V& y) {
  return apply1<V>(logaddexp_p(), {x, y});
}

}  // namespace lax
}  // namespace lockstep::ir
