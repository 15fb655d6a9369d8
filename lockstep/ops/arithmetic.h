// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "lockstep/ops/operand.h"

/// The elementwise functions of jax.numpy that are not in elementwise.h, with promotion and broadcasting as
/// there. "Floating" means that integers are converted to a floating dtype first (to_inexact).
namespace lockstep {

/// The pair of floor_divide and remainder.
std::pair<Array, Array> divmod(const Operand& x, const Operand& y);

/// x - y * trunc(x / y), which has the sign of x. For integers divided by 0 it is 0, for bools x.
Array fmod(const Operand& x, const Operand& y);

/// As maximum and minimum, but if one of two elements is NaN, the result is the other.
Array fmax(const Operand& x, const Operand& y);
Array fmin(const Operand& x, const Operand& y);

/// The greatest common divisor and the least common multiple. Throw DTypeError unless both are integers.
Array gcd(const Operand& x, const Operand& y);
Array lcm(const Operand& x, const Operand& y);

/// Rounded towards zero; integers are unchanged.
Array trunc(const Operand& x);
inline Array fix(const Operand& x) { return trunc(x); }

/// Rounded to this many decimal places, ties to even; -1 rounds to tens, -2 to hundreds.
Array round(const Operand& x, std::int64_t decimals);

/// x clipped to [low, high], as in jax.lax: the derivative at the ends is 0.
Array clamp(const Operand& low, const Operand& x, const Operand& high);

/// The fractional and the integer part, both with the sign of x. Floating.
std::pair<Array, Array> modf(const Operand& x);

inline Array positive(const Operand& x) { return x.as_array(); }

/// Floating.
Array cbrt(const Operand& x);
/// x to the power of y, computed in a floating dtype.
Array float_power(const Operand& x, const Operand& y);

/// The pair (m, e) with x = m * 2^e, 0.5 <= |m| < 1, and e of i32. For 0, infinities and NaN m is x and e is
/// 0.
std::pair<Array, Array> frexp(const Operand& x);

Array exp2(const Operand& x);
Array log2(const Operand& x);
Array log10(const Operand& x);
Array logaddexp2(const Operand& x, const Operand& y);

/// sqrt(x² + y²), without overflow. Floating.
Array hypot(const Operand& x, const Operand& y);

/// 0 for x < 0, `at_zero` for x = 0, 1 for x > 0. Floating.
Array heaviside(const Operand& x, const Operand& at_zero);

/// The absolute value of x with the sign of y; zeros and NaNs have signs, too. Floating.
Array copysign(const Operand& x, const Operand& y);

/// Bools: whether the sign bit is set, also for -0. Always false for unsigned numbers.
Array signbit(const Operand& x);

/// The next representable number after x in the direction of y; for f16, bf16, f32 and f64.
Array nextafter(const Operand& x, const Operand& y);

/// x * 2^exponent. Throws DTypeError unless the exponents are integers. Floating.
Array ldexp(const Operand& x, const Operand& exponent);

struct NanToNumOptions {
  double nan = 0;
  std::optional<double> posinf = {};  ///< by default the largest number of the dtype
  std::optional<double> neginf = {};  ///< by default the lowest number of the dtype
};

/// x with NaN and infinities replaced; integers are unchanged.
Array nan_to_num(const Operand& x, NanToNumOptions options = {});

/// sin(pi x) / (pi x), and 1 at 0. Floating.
Array sinc(const Operand& x);

/// Conversion of angles from degrees to radians, and back. Floating.
Array deg2rad(const Operand& x);
Array rad2deg(const Operand& x);

/// Bit shifts of integers; right_shift keeps the sign.
Array left_shift(const Operand& x, const Operand& y);
Array right_shift(const Operand& x, const Operand& y);

/// The number of bits of |x| that are set, as u8. For integers.
Array bitwise_count(const Operand& x);

inline Array rint(const Operand& x) { return round(x, 0); }
inline Array radians(const Operand& x) { return deg2rad(x); }
inline Array degrees(const Operand& x) { return rad2deg(x); }

}  // namespace lockstep
