#pragma once

#include "lockstep/ops/operand.h"

/// Complex numbers, c64, element by element. Sums, products, quotients, exp, log, sqrt, sin, cos, tanh and
/// their like take them as they take real numbers; abs gives the size.
namespace lockstep {

/// real + imag * i, of operands that are made f32 (f64 is a DTypeError: there is no wider complex dtype).
Array complex(const Operand& real, const Operand& imag);

/// The parts; of a real number, itself and 0.
Array real(const Operand& x);
Array imag(const Operand& x);

/// real - imag * i; of a real number, itself.
Array conj(const Operand& x);
inline Array conjugate(const Operand& x) { return conj(x); }

/// The angle in [-pi, pi]; of a real number 0 or pi.
Array angle(const Operand& x);

/// Whether the imaginary part is 0, or is not: bools.
Array isreal(const Operand& x);
Array iscomplex(const Operand& x);

}  // namespace lockstep
