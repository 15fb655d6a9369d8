#pragma once

#include "lockstep/program/primitives/apply.h"

namespace lockstep {

/// Elementwise primitives beyond the elementary ones. The plugin has them as CHLO operations, with the
/// polynomials that JAX has.
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

/// Of floating operands. cbrt is the cube root, of negative numbers too; erfc is 1 - erf; lgamma is the
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

/// The derivative of lgamma (order 0: digamma), or that derivative's of this order.
template <Operand V>
V polygamma(std::int64_t order, const V& x) {
  return apply1<V>(polygamma_p(), OpParams::of(PolygammaParams{order}), {x});
}

/// The angle of the point (x, y), in [-pi, pi].
template <Operand V>
V atan2(const V& y, const V& x) {
  return apply1<V>(atan2_p(), {y, x});
}

}  // namespace lax
}  // namespace lockstep
