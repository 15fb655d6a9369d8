#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lockstep/program/primitive.h"

/// What the families of primitives that work element by element have in common.
namespace lockstep::rules {

/// The dtypes that an operation takes.
enum class Takes { kAny, kNumber, kOrdered, kReal, kSignedReal, kInexact, kFloat, kComplex, kBits, kInteger };

/// Throws DTypeError where the operation does not take the dtype.
void check_dtype(Takes takes, DType dtype);

using Jvp = JvpRule;
using Transpose = std::function<Tangents(const TransposeCall&)>;

/// An elementwise operation: all operands of one shape and dtype, and so is the result, unless `result` names
/// its dtype.
struct Elementwise {
  std::string name;
  std::string stablehlo;
  Takes takes;
  const Primitive& (*self)();
  Jvp jvp;
  Transpose transpose = not_linear;
  std::optional<DType> result = std::nullopt;
};

Primitive elementwise(Elementwise op);

/// JVP of an operation of two operands: the sum of what each tangent contributes.
using Term = std::function<Value(const Value& t, const JvpCall& call)>;
Jvp binary_jvp(Term by_x, Term by_y);

}  // namespace lockstep::rules
