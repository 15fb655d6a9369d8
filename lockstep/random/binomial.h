// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/random/random.h"

namespace lockstep::random {

/// The number of successes in n trials with success probability p: integers in a floating dtype (DTypeError
/// otherwise). The shape is n's and p's broadcast shape, or a shape to which they broadcast. n is rounded
/// down. The result is NaN where n or p is NaN or negative, infinity where n is. The numbers are JAX's,
/// except where rounding decides differently. It has no derivative.
///
/// Sources: Kachitvichyanukul and Schmeiser, "Binomial random variate generation" (1988), by geometric
/// numbers for n p up to 10; Hörmann, "The generation of binomial random variates" (1993).
Array binomial(const KeyOperand& key, const Operand& n, const Operand& p, const Shape& shape = {},
               DType dtype = DType::kF32);

}  // namespace lockstep::random
