#pragma once

#include "lockstep/ops/operand.h"

/// Comparisons and logic, element by element, with promotion and broadcasting as in elementwise.h.
namespace lockstep {

/// Arrays of bools.
Array equal(const Operand& x, const Operand& y);
Array not_equal(const Operand& x, const Operand& y);
Array less(const Operand& x, const Operand& y);
Array less_equal(const Operand& x, const Operand& y);
Array greater(const Operand& x, const Operand& y);
Array greater_equal(const Operand& x, const Operand& y);

/// Arrays of bools; of a number, true is what is not 0.
Array logical_and(const Operand& x, const Operand& y);
Array logical_or(const Operand& x, const Operand& y);
Array logical_xor(const Operand& x, const Operand& y);
Array logical_not(const Operand& x);

/// Bit by bit, of bools and whole numbers.
Array bitwise_and(const Operand& x, const Operand& y);
Array bitwise_or(const Operand& x, const Operand& y);
Array bitwise_xor(const Operand& x, const Operand& y);
Array bitwise_not(const Operand& x);

/// Arrays of bools.
Array isfinite(const Operand& x);
Array isnan(const Operand& x);
Array isinf(const Operand& x);

/// Which infinities; of whole numbers none.
Array isposinf(const Operand& x);
Array isneginf(const Operand& x);

struct CloseOptions {
  double rtol = 1e-5, atol = 1e-8;
  bool equal_nan = false;  ///< whether two NaNs are close
};

/// Whether |x - y| <= atol + rtol * |y|, or both are the same infinity; for each element, and for all.
Array isclose(const Operand& x, const Operand& y, CloseOptions options = {});
Array allclose(const Operand& x, const Operand& y, CloseOptions options = {});

/// Whether the shapes and all elements are equal: a bool scalar.
Array array_equal(const Operand& x, const Operand& y);

/// x where the condition holds, else y; x and y are promoted, and all three broadcast. A condition of numbers
/// holds where it is not 0.
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
