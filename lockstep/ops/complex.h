// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/operand.h"

/// Complex numbers (c64 and c128), element by element. Arithmetic, exp, log, sqrt, sin, cos, tanh and similar
/// functions accept them, too; abs returns the magnitude.
namespace lockstep {

/// real + imag * i: c128 for f64, otherwise c64. Throws DTypeError for complex operands.
Array complex(const Operand& real, const Operand& imag);

/// The real and imaginary parts; for a real number, the number itself and 0.
Array real(const Operand& x);
Array imag(const Operand& x);

/// real - imag * i; a real number is unchanged.
Array conj(const Operand& x);
inline Array conjugate(const Operand& x) { return conj(x); }

/// The angle in [-pi, pi]; for a real number 0 or pi.
Array angle(const Operand& x);

/// Arrays of bools: whether the imaginary part is 0 (isreal), or not 0 (iscomplex).
Array isreal(const Operand& x);
Array iscomplex(const Operand& x);

}  // namespace lockstep
