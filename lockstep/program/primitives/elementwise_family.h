// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lockstep/program/primitive.h"

/// The common parts of the families of elementwise primitives.
namespace lockstep::ir::rules {

/// The dtypes that an operation supports.
enum class Takes {
  kAny,
  kNumber,
  kReal,
  kSignedReal,
  kSignedOrComplex,
  kInexact,
  kFloat,
  kComplex,
  kBits,
  kInteger
};

/// Throws DTypeError if the operation does not support the dtype.
void check_dtype(Takes takes, DType dtype);

using Jvp = JvpRule;
using Transpose = std::function<Tangents(const TransposeCall&)>;

/// An elementwise operation: all operands have one shape and dtype, which the result has, too, unless
/// `result` gives its dtype for theirs.
struct Elementwise {
  std::string name;
  std::string stablehlo;
  Takes takes;
  const Primitive& (*self)();
  Jvp jvp;
  Transpose transpose = not_linear;
  DType (*result)(DType operands) = nullptr;
};

/// For operations whose results are bools.
inline DType to_bool(DType) { return DType::kBool; }

Primitive elementwise(Elementwise op);

/// A part of the JVP of an operation with two operands: the contribution of one tangent to the sum.
using Term = std::function<Value(const Value& t, const JvpCall& call)>;
Jvp binary_jvp(Term by_x, Term by_y);

}  // namespace lockstep::ir::rules
