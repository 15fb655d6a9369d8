// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/special.h"

#include <limits>
#include <numbers>

#include "lockstep/ops/apply.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/special.h"

namespace lockstep {
namespace {

using ops::Meet;
using ops::Tracers;

Array unary(const std::string& name, const Primitive& primitive, const Operand& x) {
  return ops::elementwise(name, "", Meet::kInexact, {&x},
                          [&](Tracers t) { return lax::apply1<Array>(primitive, {t[0]}); });
}

Array constant(const Array& like, double value) { return lax::full_like(like, value); }

/// x * log(y), with logarithms computed by `log`, which are finite for y above `bound`; 0 where x is 0.
template <class Log>
Array times_log(const std::string& name, const Operand& x, const Operand& y, double bound, Log log) {
  return ops::elementwise(name, "", Meet::kInexact, {&x, &y}, [&](Tracers t) {
    Array zero = lax::eq(t[0], constant(t[0], 0)), finite = lax::gt(t[1], constant(t[1], bound));
    Array instead = lax::logical_and(zero, lax::logical_not(finite));
    return lax::mul(t[0], log(lax::select(instead, constant(t[1], bound + 1), t[1])));
  });
}

}  // namespace

Array erf(const Operand& x) { return unary("erf", erf_p(), x); }
Array erfc(const Operand& x) { return unary("erfc", erfc_p(), x); }
Array erf_inv(const Operand& x) { return unary("erf_inv", erf_inv_p(), x); }
Array gammaln(const Operand& x) { return unary("gammaln", lgamma_p(), x); }

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
    // Below 0 the sign turns at each whole number.
    Array half = lax::mul(lax::floor(x), constant(x, 0.5));
    Array odd = lax::logical_and(lax::lt(x, constant(x, 0)), lax::ne(half, lax::floor(half)));
    Array size = lax::exp(lax::lgamma(x));
    return lax::select(odd, lax::neg(size), size);
  });
}

Array betaln(const Operand& x, const Operand& y) {
  return ops::elementwise("betaln", "", Meet::kInexact, {&x, &y}, [](Tracers t) {
    return lax::sub(lax::add(lax::lgamma(t[0]), lax::lgamma(t[1])), lax::lgamma(lax::add(t[0], t[1])));
  });
}

Array factorial(const Operand& n) {
  return ops::elementwise("factorial", "", Meet::kInexact, {&n}, [](Tracers t) {
    Array value = lax::exp(lax::lgamma(lax::add(t[0], constant(t[0], 1))));
    return lax::select(lax::lt(t[0], constant(t[0], 0)), constant(t[0], 0), value);
  });
}

Array xlogy(const Operand& x, const Operand& y) {
  return times_log("xlogy", x, y, 0, [](const Array& y) { return lax::log(y); });
}

Array xlog1py(const Operand& x, const Operand& y) {
  return times_log("xlog1py", x, y, -1, [](const Array& y) { return lax::log1p(y); });
}

Array entr(const Operand& x) {
  return ops::elementwise("entr", "", Meet::kInexact, {&x}, [](Tracers t) {
    Array zero = constant(t[0], 0), positive = lax::gt(t[0], zero);
    Array value = lax::neg(lax::mul(t[0], lax::log(lax::select(positive, t[0], constant(t[0], 1)))));
    Array elsewhere =
        lax::select(lax::eq(t[0], zero), zero, constant(t[0], -std::numeric_limits<double>::infinity()));
    return lax::select(positive, value, elsewhere);
  });
}

Array logit(const Operand& x) {
  return ops::elementwise("logit", "", Meet::kInexact, {&x}, [](Tracers t) {
    return lax::log(lax::div(t[0], lax::sub(constant(t[0], 1), t[0])));
  });
}

Array ndtr(const Operand& x) {
  return ops::elementwise("ndtr", "", Meet::kInexact, {&x}, [](Tracers t) {
    Array scaled = lax::mul(t[0], constant(t[0], -1 / std::numbers::sqrt2));
    return lax::mul(constant(t[0], 0.5), lax::erfc(scaled));
  });
}

Array ndtri(const Operand& p) {
  return ops::elementwise("ndtri", "", Meet::kInexact, {&p}, [](Tracers t) {
    Array twice = lax::sub(lax::add(t[0], t[0]), constant(t[0], 1));
    return lax::mul(constant(t[0], std::numbers::sqrt2), lax::erf_inv(twice));
  });
}

}  // namespace lockstep
