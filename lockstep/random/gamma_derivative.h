// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/array/array.h"

/// For gamma.cc.
namespace lockstep::random {

/// Within a trace: the derivative of a sample of the gamma distribution with respect to its parameter a,
/// element by element: -(dP/da) / (dP/dx), where P(a, x) is the regularized incomplete gamma function. `a`
/// and `sample` have one floating dtype. 0 where the sample is 0, NaN where it is negative or `a` is not
/// positive.
Array gamma_sample_derivative(const Array& a, const Array& sample);

}  // namespace lockstep::random
