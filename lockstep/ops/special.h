// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/elementwise.h"

/// The functions of jax.scipy.special, element by element, with promotion and broadcasting as in
/// elementwise.h. Integers are converted to a floating dtype first (to_inexact).
namespace lockstep {

/// erf: the error function. erfc: 1 - erf(x), without cancellation. erf_inv: the inverse of erf on [-1, 1].
Array erf(const Operand& x);
Array erfc(const Operand& x);
Array erf_inv(const Operand& x);
inline Array erfinv(const Operand& x) { return erf_inv(x); }

/// gammaln: the logarithm of |gamma(x)|. digamma: its derivative. polygamma: the n-th derivative of digamma
/// (Error for n < 0). gamma: the gamma function, with its sign; of complex numbers, too.
Array gammaln(const Operand& x);
Array digamma(const Operand& x);
Array polygamma(std::int64_t n, const Operand& x);
Array gamma(const Operand& x);
inline Array lgamma(const Operand& x) { return gammaln(x); }

/// betaln: the logarithm of the beta function. factorial: n!.
Array betaln(const Operand& x, const Operand& y);
Array factorial(const Operand& n);

/// x * log(y), x * log1p(y) and -x * log(x); 0 where x is 0, unless y is NaN.
Array xlogy(const Operand& x, const Operand& y);
Array xlog1py(const Operand& x, const Operand& y);
Array entr(const Operand& x);

/// logit: log(x / (1 - x)). expit: its inverse, sigmoid.
Array logit(const Operand& x);
inline Array expit(const Operand& x) { return sigmoid(x); }

/// ndtr: the cumulative distribution function of the normal distribution. ndtri: its inverse.
Array ndtr(const Operand& x);
Array ndtri(const Operand& p);

}  // namespace lockstep
