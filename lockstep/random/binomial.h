#pragma once

#include "lockstep/random/random.h"

namespace lockstep::random {

/// How many of n trials succeed, each with probability p: whole numbers of a floating dtype (DTypeError
/// otherwise). Of n's and p's shapes broadcast, or a shape that they broadcast to. n is rounded down; NaN
/// where n or p is NaN or below 0, infinity where n is. JAX's numbers, but where rounding decides otherwise.
/// It has no derivative.
///
/// Sources: Kachitvichyanukul and Schmeiser, "Binomial random variate generation" (1988), by geometric
/// numbers for n p up to 10; Hörmann, "The generation of binomial random variates" (1993).
Array binomial(const Operand& key, const Operand& n, const Operand& p, const Shape& shape = {},
               DType dtype = DType::kF32);

}  // namespace lockstep::random
