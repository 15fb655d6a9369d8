#pragma once

#include "lockstep/ops/elementwise.h"

/// The functions of jax.scipy.special, element by element, with promotion and broadcasting as in
/// elementwise.h. Whole numbers are made floating first (to_inexact).
namespace lockstep {

/// The error function, 1 - erf(x) without cancellation, and erf's inverse on [-1, 1].
Array erf(const Operand& x);
Array erfc(const Operand& x);
Array erf_inv(const Operand& x);
inline Array erfinv(const Operand& x) { return erf_inv(x); }

/// The logarithm of the gamma function's absolute value, its derivative, and that one's of order n (n >= 0,
/// Error otherwise); gamma itself, with its sign.
Array gammaln(const Operand& x);
Array digamma(const Operand& x);
Array polygamma(std::int64_t n, const Operand& x);
Array gamma(const Operand& x);
inline Array lgamma(const Operand& x) { return gammaln(x); }

/// The logarithm of the beta function; n!.
Array betaln(const Operand& x, const Operand& y);
Array factorial(const Operand& n);

/// x * log(y), x * log1p(y) and -x * log(x), 0 where x is 0.
Array xlogy(const Operand& x, const Operand& y);
Array xlog1py(const Operand& x, const Operand& y);
Array entr(const Operand& x);

/// log(x / (1 - x)), and its inverse, which is sigmoid.
Array logit(const Operand& x);
inline Array expit(const Operand& x) { return sigmoid(x); }

/// The normal distribution's cumulative function, and its inverse.
Array ndtr(const Operand& x);
Array ndtri(const Operand& p);

}  // namespace lockstep
