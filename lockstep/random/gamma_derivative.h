#pragma once

#include "lockstep/array/array.h"

/// For gamma.cc.
namespace lockstep::random {

/// Within a trace: how a sample of the gamma distribution moves with its parameter a, -(dP/da) / (dP/dx) of
/// the regularized incomplete gamma function P(a, x), element by element; `a` and `sample` are of one
/// floating dtype. 0 where the sample is 0, NaN where it is negative or `a` is not positive.
Array gamma_sample_derivative(const Array& a, const Array& sample);

}  // namespace lockstep::random
