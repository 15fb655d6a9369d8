#pragma once

#include "lockstep/ops/operand.h"

/// Operations element by element. Operands are promoted to one dtype (promotion.h) and broadcast to one
/// shape, by NumPy's rules; where they do not broadcast, ShapeError names the shapes and the user's line. A
/// dtype that an operation does not take is a DTypeError.
namespace lockstep {

/// Of bools, add is "or" and multiply is "and", as in NumPy.
Array add(const Operand& x, const Operand& y);
Array subtract(const Operand& x, const Operand& y);
Array multiply(const Operand& x, const Operand& y);

/// True division: whole numbers are made floating first (to_inexact).
Array divide(const Operand& x, const Operand& y);

/// The largest whole number not above x / y; of the operands' dtype. Of whole numbers divided by 0 it is what
/// JAX gives: -1 or -2, of unsigned ones the largest.
Array floor_divide(const Operand& x, const Operand& y);

/// x - y * floor_divide(x, y): it has the sign of y. Of whole numbers divided by 0 it is 0.
Array remainder(const Operand& x, const Operand& y);

/// x to the power of y. A whole C++ number as y is multiplied out, so that its derivative is right for any x;
/// of an array of whole numbers it must not be negative (DTypeError).
Array power(const Operand& x, const Operand& y);

/// NaN where either is.
Array maximum(const Operand& x, const Operand& y);
Array minimum(const Operand& x, const Operand& y);

/// x kept within [low, high].
Array clip(const Operand& x, const Operand& low, const Operand& high);

Array negative(const Operand& x);
Array abs(const Operand& x);  ///< of complex numbers f32
Array sign(const Operand& x);
Array square(const Operand& x);

/// Of whole numbers: themselves. round goes to the nearest, halves to even.
Array floor(const Operand& x);
Array ceil(const Operand& x);
Array round(const Operand& x);

/// Whole numbers are made floating first (to_inexact).
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

/// The numbers as another dtype: floating to whole rounds towards zero, anything to bool is x != 0.
Array astype(const Operand& x, DType dtype);

/// x, whose derivative is taken to be zero.
Array stop_gradient(const Operand& x);

inline Array operator+(const Operand& x, const Operand& y) { return add(x, y); }
inline Array operator-(const Operand& x, const Operand& y) { return subtract(x, y); }
inline Array operator*(const Operand& x, const Operand& y) { return multiply(x, y); }
inline Array operator/(const Operand& x, const Operand& y) { return divide(x, y); }
inline Array operator%(const Operand& x, const Operand& y) { return remainder(x, y); }
inline Array operator-(const Operand& x) { return negative(x); }

/// More of jax.numpy's names.
inline Array true_divide(const Operand& x, const Operand& y) { return divide(x, y); }
inline Array mod(const Operand& x, const Operand& y) { return remainder(x, y); }
inline Array pow(const Operand& x, const Operand& y) { return power(x, y); }
inline Array absolute(const Operand& x) { return abs(x); }

/// Put a new array in x's place; other handles of the old one keep it.
inline Array& operator+=(Array& x, const Operand& y) { return x = add(Operand(x, y.where()), y); }
inline Array& operator-=(Array& x, const Operand& y) { return x = subtract(Operand(x, y.where()), y); }
inline Array& operator*=(Array& x, const Operand& y) { return x = multiply(Operand(x, y.where()), y); }
inline Array& operator/=(Array& x, const Operand& y) { return x = divide(Operand(x, y.where()), y); }

}  // namespace lockstep
