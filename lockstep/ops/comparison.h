// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/operand.h"

/// Elementwise comparisons and logic, with promotion and broadcasting as in elementwise.h.
namespace lockstep {

/// Arrays of bools. Complex numbers are ordered by the real part, and where these are equal by the imaginary
/// one.
Array equal(const Operand& x, const Operand& y);
Array not_equal(const Operand& x, const Operand& y);
Array less(const Operand& x, const Operand& y);
Array less_equal(const Operand& x, const Operand& y);
Array greater(const Operand& x, const Operand& y);
Array greater_equal(const Operand& x, const Operand& y);

/// Arrays of bools. A number counts as true if it is not 0.
Array logical_and(const Operand& x, const Operand& y);
Array logical_or(const Operand& x, const Operand& y);
Array logical_xor(const Operand& x, const Operand& y);
Array logical_not(const Operand& x);

/// Bitwise, for bools and integers.
Array bitwise_and(const Operand& x, const Operand& y);
Array bitwise_or(const Operand& x, const Operand& y);
Array bitwise_xor(const Operand& x, const Operand& y);
Array bitwise_not(const Operand& x);

/// Arrays of bools.
Array isfinite(const Operand& x);
Array isnan(const Operand& x);
Array isinf(const Operand& x);

/// Arrays of bools: whether an element is this infinity. Always false for integers.
Array isposinf(const Operand& x);
Array isneginf(const Operand& x);

struct CloseOptions {
  double rtol = 1e-5, atol = 1e-8;
  bool equal_nan = false;  ///< whether two NaNs are close
};

/// isclose: for each element, whether |x - y| <= atol + rtol * |y|, or both are the same infinity. allclose:
/// whether this holds for all elements.
Array isclose(const Operand& x, const Operand& y, CloseOptions options = {});
Array allclose(const Operand& x, const Operand& y, CloseOptions options = {});

/// A bool scalar: whether the shapes and all elements are equal.
Array array_equal(const Operand& x, const Operand& y);

/// x where the condition is true, else y. x and y are promoted, and all three are broadcast. A condition of
/// numbers is true where it is not 0.
Array where(const Operand& condition, const Operand& x, const Operand& y);

inline Array operator==(const Operand& x, const Operand& y) { return equal(x, y); }
inline Array operator!=(const Operand& x, const Operand& y) { return not_equal(x, y); }
inline Array operator<(const Operand& x, const Operand& y) { return less(x, y); }
inline Array operator<=(const Operand& x, const Operand& y) { return less_equal(x, y); }
inline Array operator>(const Operand& x, const Operand& y) { return greater(x, y); }
inline Array operator>=(const Operand& x, const Operand& y) { return greater_equal(x, y); }
inline Array operator&(const Operand& x, const Operand& y) { return bitwise_and(x, y); }
inline Array operator|(const Operand& x, const Operand& y) { return bitwise_or(x, y); }
inline Array operator^(const Operand& x, const Operand& y) { return bitwise_xor(x, y); }
inline Array operator~(const Operand& x) { return bitwise_not(x); }
inline Array operator!(const Operand& x) { return logical_not(x); }

}  // namespace lockstep
