// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/special.h"

#include <limits>
#include <numbers>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/arithmetic.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/special.h"

namespace lockstep {
namespace {

using ops::Meet;
using ops::Tracers;

Array constant(const Array& like, double value) { return lax::full_like(like, value); }

}  // namespace

Array erf(const Operand& x) { return ops::elementwise("erf", Meet::kInexact, erf_p(), {&x}); }
Array erfc(const Operand& x) { return ops::elementwise("erfc", Meet::kInexact, erfc_p(), {&x}); }
Array erf_inv(const Operand& x) { return ops::elementwise("erf_inv", Meet::kInexact, erf_inv_p(), {&x}); }
Array gammaln(const Operand& x) { return ops::elementwise("gammaln", Meet::kInexact, lgamma_p(), {&x}); }

Array digamma(const Operand& x) {
  return ops::elementwise("digamma", "", Meet::kInexact, {&x},
                          [](Tracers t) { return lax::polygamma(0, t[0]); });
}

Array polygamma(std::int64_t n, const Operand& x) {
  if (n < 0) {
    CallSiteScope here(x.site());
    fail("[polygamma] expected an order of 0 or more, got {}{}", n, ops::at());
  }
  return ops::elementwise("polygamma", fmt::format("{}", n), Meet::kInexact, {&x},
                          [n](Tracers t) { return lax::polygamma(n, t[0]); });
}

Array gamma(const Operand& x) {
  return ops::elementwise("gamma", "", Meet::kInexact, {&x}, [](Tracers t) {
    const Array& x = t[0];
    // Below 0 the sign turns at each whole number, where there is no value.
    Array zero = constant(x, 0), below = lax::lt(x, zero), whole = lax::floor(x);
    Array half = lax::mul(whole, constant(x, 0.5)), is_odd = lax::ne(half, lax::floor(half));
    Array is_minus_zero = lax::logical_and(lax::eq(x, zero), signbit(x));
    Array sign = lax::select(lax::logical_or(lax::logical_and(below, is_odd), is_minus_zero), constant(x, -1),
                             constant(x, 1));
    Array is_pole = lax::logical_and(below, lax::eq(x, whole));
    sign = lax::select(is_pole, constant(x, std::numeric_limits<double>::quiet_NaN()), sign);
    return lax::mul(sign, lax::exp(lax::lgamma(x)));
  });
}

Array betaln(const Operand& x, const Operand& y) {
  return ops::elementwise("betaln", Meet::kInexact, betaln_p(), {&x, &y});
}

Array factorial(const Operand& n) {
  return ops::elementwise("factorial", "", Meet::kInexact, {&n}, [](Tracers t) {
    Array value = lax::exp(lax::lgamma(lax::add(t[0], constant(t[0], 1))));
    return lax::select(lax::lt(t[0], constant(t[0], 0)), constant(t[0], 0), value);
  });
}

Array xlogy(const Operand& x, const Operand& y) {
  return ops::elementwise("xlogy", Meet::kInexact, xlogy_p(), {&x, &y});
}
Array xlog1py(const Operand& x, const Operand& y) {
  return ops::elementwise("xlog1py", Meet::kInexact, xlog1py_p(), {&x, &y});
}
Array entr(const Operand& x) { return ops::elementwise("entr", Meet::kInexact, entr_p(), {&x}); }
Array logit(const Operand& x) { return ops::elementwise("logit", Meet::kInexact, logit_p(), {&x}); }

Array ndtr(const Operand& x) {
  return ops::elementwise("ndtr", "", Meet::kInexact, {&x}, [](Tracers t) {
    Array scaled = lax::mul(t[0], constant(t[0], -1 / std::numbers::sqrt2));
    return lax::mul(constant(t[0], 0.5), lax::erfc(scaled));
  });
}

Array ndtri(const Operand& p) { return ops::elementwise("ndtri", Meet::kInexact, ndtri_p(), {&p}); }

}  // namespace lockstep
