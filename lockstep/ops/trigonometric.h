// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/operand.h"

/// Trigonometric and hyperbolic functions and their inverses, element by element, with promotion and
/// broadcasting as in elementwise.h. Angles are in radians. Integers are converted to a floating dtype first
/// (to_inexact). Outside of a function's domain the result is NaN. The inverses have both names of jax.numpy,
/// such as arcsin and asin.
namespace lockstep {

Array tan(const Operand& x);
Array arcsin(const Operand& x);
Array arccos(const Operand& x);
Array arctan(const Operand& x);

/// The angle of the point (x, y), in [-pi, pi].
Array arctan2(const Operand& y, const Operand& x);

Array sinh(const Operand& x);
Array cosh(const Operand& x);
Array arcsinh(const Operand& x);
Array arccosh(const Operand& x);
Array arctanh(const Operand& x);

inline Array asin(const Operand& x) { return arcsin(x); }
inline Array acos(const Operand& x) { return arccos(x); }
inline Array atan(const Operand& x) { return arctan(x); }
inline Array atan2(const Operand& y, const Operand& x) { return arctan2(y, x); }
inline Array asinh(const Operand& x) { return arcsinh(x); }
inline Array acosh(const Operand& x) { return arccosh(x); }
inline Array atanh(const Operand& x) { return arctanh(x); }

}  // namespace lockstep
