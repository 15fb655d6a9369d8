// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/special.h"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/arithmetic.h"
#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/special.h"

namespace lockstep {
namespace {

using ops::Meet;
using ops::Tracers;

Array constant(const Array& like, double value) { return ir::lax::full_like(like, value); }

/// The logarithm of gamma of complex numbers whose real part is 1/2 or more, by Lanczos' series.
Array log_of_gamma(const Array& z) {
  constexpr double kShift = 7.5;
  constexpr std::array kTerms = {676.5203681218851,     -1259.1392167224028,  771.32342877765313,
                                 -176.61502916214059,   12.507343278686905,   -0.13857109526572012,
                                 9.9843695780195716e-6, 1.5056327351493116e-7};
  const Array below = ir::lax::sub(z, constant(z, 1)), base = ir::lax::add(below, constant(z, kShift));
  Array sum = constant(z, 0.99999999999980993);
  for (std::size_t k = 0; k < kTerms.size(); ++k)
    sum = ir::lax::add(sum, ir::lax::div(constant(z, kTerms[k]),
                                         ir::lax::add(below, constant(z, static_cast<double>(k + 1)))));
  const Array power = ir::lax::mul(ir::lax::add(below, constant(z, 0.5)), ir::lax::log(base));
  const Array scale = constant(z, std::log(2 * std::numbers::pi) / 2);
  return ir::lax::add(ir::lax::sub(ir::lax::add(scale, power), base), ir::lax::log(sum));
}

/// Numbers left of 1/2 are reflected: gamma(z) gamma(1 - z) = pi / sin(pi z). At poles and of a NaN both
/// parts are NaN.
Array complex_gamma(const Array& given) {
  const Array re = ir::lax::real(given), zero = constant(re, 0);
  const Array on_axis =
      ir::lax::logical_and(ir::lax::eq(ir::lax::imag(given), zero), ir::lax::eq(re, ir::lax::floor(re)));
  const Array is_pole = ir::lax::logical_and(on_axis, ir::lax::le(re, zero));
  const Array has_none = ir::lax::logical_or(is_pole, ir::lax::ne(given, given));
  const Array z = ir::lax::select(has_none, constant(given, 1), given), half = constant(z, 0.5);
  const Array is_left = ir::lax::lt(ir::lax::real(z), ir::lax::real(half));
  const Array right = log_of_gamma(ir::lax::select(is_left, ir::lax::sub(constant(z, 1), z), z));
  const Array angle = ir::lax::mul(constant(z, std::numbers::pi), ir::lax::select(is_left, z, half));
  const Array reflected = ir::lax::sub(
      ir::lax::sub(constant(z, std::log(std::numbers::pi)), ir::lax::log(ir::lax::sin(angle))), right);
  const Array nan = constant(re, std::numeric_limits<double>::quiet_NaN());
  return ir::lax::select(has_none, ir::lax::complex(nan, nan),
                         ir::lax::exp(ir::lax::select(is_left, reflected, right)));
}

}  // namespace

Array erf(const Operand& x) { return ops::elementwise("erf", Meet::kInexact, ir::erf_p(), {&x}); }
Array erfc(const Operand& x) { return ops::elementwise("erfc", Meet::kInexact, ir::erfc_p(), {&x}); }
Array erf_inv(const Operand& x) { return ops::elementwise("erf_inv", Meet::kInexact, ir::erf_inv_p(), {&x}); }
Array gammaln(const Operand& x) { return ops::elementwise("gammaln", Meet::kInexact, ir::lgamma_p(), {&x}); }

Array digamma(const Operand& x) {
  return ops::elementwise("digamma", "", Meet::kInexact, {&x},
                          [](Tracers t) { return ir::lax::polygamma(0, t[0]); });
}

Array polygamma(std::int64_t n, const Operand& x) {
  if (n < 0) {
    CallSiteScope here(x.site());
    fail("[polygamma] expected an order of 0 or more, got {}{}", n, ops::at());
  }
  return ops::elementwise("polygamma", fmt::format("{}", n), Meet::kInexact, {&x},
                          [n](Tracers t) { return ir::lax::polygamma(n, t[0]); });
}

Array gamma(const Operand& x) {
  return ops::elementwise("gamma", "", Meet::kInexact, {&x}, [](Tracers t) {
    const Array& x = t[0];
    if (is_complex(x.dtype())) return complex_gamma(x);
    // Below 0 the sign turns at each whole number, where there is no value.
    Array zero = constant(x, 0), below = ir::lax::lt(x, zero), whole = ir::lax::floor(x);
    Array half = ir::lax::mul(whole, constant(x, 0.5)), is_odd = ir::lax::ne(half, ir::lax::floor(half));
    Array is_minus_zero = ir::lax::logical_and(ir::lax::eq(x, zero), signbit(x));
    Array sign = ir::lax::select(ir::lax::logical_or(ir::lax::logical_and(below, is_odd), is_minus_zero),
                                 constant(x, -1), constant(x, 1));
    Array is_pole = ir::lax::logical_and(below, ir::lax::eq(x, whole));
    sign = ir::lax::select(is_pole, constant(x, std::numeric_limits<double>::quiet_NaN()), sign);
    return ir::lax::mul(sign, ir::lax::exp(ir::lax::lgamma(x)));
  });
}

Array betaln(const Operand& x, const Operand& y) {
  return ops::elementwise("betaln", Meet::kInexact, ir::betaln_p(), {&x, &y});
}

Array factorial(const Operand& n) {
  return ops::elementwise("factorial", "", Meet::kInexact, {&n}, [](Tracers t) {
    Array value = ir::lax::exp(ir::lax::lgamma(ir::lax::add(t[0], constant(t[0], 1))));
    return ir::lax::select(ir::lax::lt(t[0], constant(t[0], 0)), constant(t[0], 0), value);
  });
}

Array xlogy(const Operand& x, const Operand& y) {
  return ops::elementwise("xlogy", Meet::kInexact, ir::xlogy_p(), {&x, &y});
}
Array xlog1py(const Operand& x, const Operand& y) {
  return ops::elementwise("xlog1py", Meet::kInexact, ir::xlog1py_p(), {&x, &y});
}
Array entr(const Operand& x) { return ops::elementwise("entr", Meet::kInexact, ir::entr_p(), {&x}); }
Array logit(const Operand& x) { return ops::elementwise("logit", Meet::kInexact, ir::logit_p(), {&x}); }

Array ndtr(const Operand& x) {
  return ops::elementwise("ndtr", "", Meet::kInexact, {&x}, [](Tracers t) {
    Array scaled = ir::lax::mul(t[0], constant(t[0], -std::numbers::sqrt2 / 2));
    return ir::lax::mul(constant(t[0], 0.5), ir::lax::erfc(scaled));
  });
}

Array ndtri(const Operand& p) { return ops::elementwise("ndtri", Meet::kInexact, ir::ndtri_p(), {&p}); }

}  // namespace lockstep
