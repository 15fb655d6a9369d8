// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/operand.h"

/// Elementwise operations. Operands are promoted to one dtype (promotion.h) and broadcast to one shape by
/// NumPy's rules. If they do not broadcast, a ShapeError names the shapes and the user's line. A dtype that
/// an operation does not support is a DTypeError.
namespace lockstep {

/// For bools, add is "or" and multiply is "and", as in NumPy. The other arithmetic of bools gives i32.
Array add(const Operand& x, const Operand& y);
Array subtract(const Operand& x, const Operand& y);
Array multiply(const Operand& x, const Operand& y);

/// True division: integers are converted to a floating dtype first (to_inexact).
Array divide(const Operand& x, const Operand& y);

/// The largest integer not above x / y, in the operands' dtype. An integer divided by 0 gives JAX's result:
/// -1 or -2, for unsigned ones the largest number.
Array floor_divide(const Operand& x, const Operand& y);

/// x - y * floor_divide(x, y), which has the sign of y. For integers divided by 0 it is 0.
Array remainder(const Operand& x, const Operand& y);

/// x to the power of y. A C++ integer y becomes repeated multiplication, so that the derivative is right for
/// any x; for an integer array x it must not be negative (DTypeError).
Array power(const Operand& x, const Operand& y);

/// NaN if either operand is NaN. Complex numbers are compared by the real part, and where these are equal by
/// the imaginary one; then y is the result if a part that is compared is NaN.
Array maximum(const Operand& x, const Operand& y);
Array minimum(const Operand& x, const Operand& y);

/// x clipped to [low, high].
Array clip(const Operand& x, const Operand& low, const Operand& high);

Array negative(const Operand& x);
Array abs(const Operand& x);  ///< f32 for complex numbers
Array sign(const Operand& x);
Array square(const Operand& x);

/// Integers are unchanged. round rounds to the nearest integer, ties to even.
Array floor(const Operand& x);
Array ceil(const Operand& x);
Array round(const Operand& x);

/// Integers are converted to a floating dtype first (to_inexact).
Array reciprocal(const Operand& x);
Array exp(const Operand& x);
Array expm1(const Operand& x);
Array log(const Operand& x);
Array log1p(const Operand& x);
Array tanh(const Operand& x);
Array sigmoid(const Operand& x);
Array sqrt(const Operand& x);
Array rsqrt(const Operand& x);
Array sin(const Operand& x);
Array cos(const Operand& x);

/// log(exp(x) + exp(y)), without overflow.
Array logaddexp(const Operand& x, const Operand& y);

/// x converted to another dtype. Floating to integer rounds towards zero; conversion to bool is x != 0.
Array astype(const Operand& x, DType dtype);

/// x with a derivative of zero.
Array stop_gradient(const Operand& x);

inline Array operator+(const Operand& x, const Operand& y) { return add(x, y); }
inline Array operator-(const Operand& x, const Operand& y) { return subtract(x, y); }
inline Array operator*(const Operand& x, const Operand& y) { return multiply(x, y); }
inline Array operator/(const Operand& x, const Operand& y) { return divide(x, y); }
inline Array operator%(const Operand& x, const Operand& y) { return remainder(x, y); }
inline Array operator-(const Operand& x) { return negative(x); }

/// Other names of jax.numpy for the same functions.
inline Array true_divide(const Operand& x, const Operand& y) { return divide(x, y); }
inline Array mod(const Operand& x, const Operand& y) { return remainder(x, y); }
inline Array pow(const Operand& x, const Operand& y) { return power(x, y); }
inline Array absolute(const Operand& x) { return abs(x); }

/// Assign a new array to x; copies of the old handle keep the old array.
inline Array& operator+=(Array& x, const Operand& y) { return x = add(Operand(x, y.where()), y); }
inline Array& operator-=(Array& x, const Operand& y) { return x = subtract(Operand(x, y.where()), y); }
inline Array& operator*=(Array& x, const Operand& y) { return x = multiply(Operand(x, y.where()), y); }
inline Array& operator/=(Array& x, const Operand& y) { return x = divide(Operand(x, y.where()), y); }

}  // namespace lockstep
