#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "lockstep/ops/operand.h"

/// What jax.numpy has element by element beyond elementwise.h, with promotion and broadcasting as there.
/// Where it says "floating", whole numbers are made floating first (to_inexact).
namespace lockstep {

/// floor_divide and remainder.
std::pair<Array, Array> divmod(const Operand& x, const Operand& y);

/// x - y * trunc(x / y): it has the sign of x.
Array fmod(const Operand& x, const Operand& y);

/// As maximum and minimum, but of a number and a NaN the number.
Array fmax(const Operand& x, const Operand& y);
Array fmin(const Operand& x, const Operand& y);

/// The greatest common divisor and the least common multiple, of integers (DTypeError otherwise).
Array gcd(const Operand& x, const Operand& y);
Array lcm(const Operand& x, const Operand& y);

/// Whole parts, towards zero; of whole numbers, themselves.
Array trunc(const Operand& x);
inline Array fix(const Operand& x) { return trunc(x); }

/// To this many decimal places, halves to even; fewer than none: to tens, hundreds, ...
Array round(const Operand& x, std::int64_t decimals);

/// x kept within [low, high], as in jax.lax: derivatives are 0 at the ends.
Array clamp(const Operand& low, const Operand& x, const Operand& high);

/// Fractional and whole part, both with the sign of x. Floating.
std::pair<Array, Array> modf(const Operand& x);

inline Array positive(const Operand& x) { return x.as_array(); }

/// Floating.
Array cbrt(const Operand& x);
/// x to the power of y, of numbers made floating first.
Array float_power(const Operand& x, const Operand& y);

/// x = m 2^e, with m of at least 0.5 and below 1 in size, and e i32; of 0, infinities and NaN m is x and e 0.
std::pair<Array, Array> frexp(const Operand& x);

Array exp2(const Operand& x);
Array log2(const Operand& x);
Array log10(const Operand& x);
Array logaddexp2(const Operand& x, const Operand& y);

/// sqrt(x² + y²), without overflow. Floating.
Array hypot(const Operand& x, const Operand& y);

/// 0 below 0, `at_zero` at 0, 1 above. Floating.
Array heaviside(const Operand& x, const Operand& at_zero);

/// The size of x with the sign of y, zeros and NaNs with signs of their own. Floating.
Array copysign(const Operand& x, const Operand& y);

/// Whether the sign is set, of -0 too: bools. Of unsigned numbers never.
Array signbit(const Operand& x);

/// The next number of the dtype from x towards y; of f16, bf16, f32 and f64.
Array nextafter(const Operand& x, const Operand& y);

/// x * 2^exponent, of whole exponents (DTypeError otherwise). Floating.
Array ldexp(const Operand& x, const Operand& exponent);

struct NanToNumOptions {
  double nan = 0;
  std::optional<double> posinf = {};  ///< by default the dtype's largest
  std::optional<double> neginf = {};  ///< by default the dtype's lowest
};

/// x with these in place of NaN and the infinities; whole numbers stay.
Array nan_to_num(const Operand& x, NanToNumOptions options = {});

/// sin(pi x) / (pi x), 1 at 0. Floating.
Array sinc(const Operand& x);

/// Angles between degrees and radians. Floating.
Array deg2rad(const Operand& x);
Array rad2deg(const Operand& x);

/// Bits moved up and down, of integers; down keeps the sign.
Array left_shift(const Operand& x, const Operand& y);
Array right_shift(const Operand& x, const Operand& y);

/// How many bits of |x| are set: u8. Of integers.
Array bitwise_count(const Operand& x);

inline Array rint(const Operand& x) { return round(x, 0); }
inline Array radians(const Operand& x) { return deg2rad(x); }
inline Array degrees(const Operand& x) { return rad2deg(x); }

}  // namespace lockstep
