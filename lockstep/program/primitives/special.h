// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/primitives/apply.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep {

/// More elementwise primitives. The plugin has them as CHLO operations, with JAX's polynomials.
const Primitive& cbrt_p();
const Primitive& atan2_p();
const Primitive& erf_p();
const Primitive& erfc_p();
const Primitive& erf_inv_p();
const Primitive& lgamma_p();
const Primitive& polygamma_p();

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

/// log(exp(x) + exp(y)), without overflow, also for infinities, and with derivatives of any order.
template <Operand V>
V logaddexp(const V& x, const V& y) {
  const V exact = sub(x, y), zero = full_like(x, 0);
  const V infinite = ne(exact, exact);  // both are infinities of one sign, or one is NaN
  const V difference = select(infinite, zero, exact);
  // For close x and y, a smooth form: the other form loses the second derivative at x = y.
  const V near = lt(abs(difference), full_like(x, 1));
  const V smooth = add(y, log1p(exp(select(near, difference, zero))));
  const V apart = select(near, zero, difference);
  const V beyond = log1p(exp(neg(mul(apart, sign(apart)))));
  const V sum = select(near, smooth, add(max(x, y), beyond));
  return select(infinite, add(x, y), sum);
}

}  // namespace lax
}  // namespace lockstep
