// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/primitives/apply.h"

// Sine, cosine and tangent of f32 and narrower numbers from operations for which XLA's CPU compiler has
// vector code; for its own it calls the C library for each element.
namespace lockstep::ir {

enum class Trigonometric : std::uint8_t { kSin, kCos, kTan };

/// The function of x, within 0.51 units in the last place of f32, for all of its numbers.
///
/// In f64: the integer that is nearest to x 2/pi, modulo 4, and the rest, by products with 28 bits of 2/pi at
/// a time, which are exact (Payne and Hanek, "Radian reduction for trigonometric functions", 1983); then the
/// polynomials of FreeBSD's msun (k_sinf.c, k_cosf.c).
Value trigonometric_on_cpus(Trigonometric function, const Value& x);

/// The primitive of this function, lowered on CPUs as above if there are so many elements that this repays a
/// kernel of its own; XLA would otherwise compute the function again for each element of a broadcast.
Primitive vectorized_on_cpus(Primitive primitive, Trigonometric function);

}  // namespace lockstep::ir
