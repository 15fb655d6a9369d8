// SPDX-License-Identifier: Apache-2.0
#pragma once

// For the layers of the library that make operations of primitives: the common parts of operations on arrays.

#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/array/trace.h"
#include "lockstep/base/call_site.h"
#include "lockstep/base/fail.h"
#include "lockstep/ops/operand.h"

namespace lockstep::ops {

/// The broadcast shape of the operands, by NumPy's rule: sizes are compared from the last dimension, and must
/// be equal, or one of them 1, which is repeated. Throws ShapeError with the operation, the operands and the
/// dimension.
Shape broadcast_shapes(std::string_view operation, std::span<const Aval> operands);

/// x, broadcast to the shape. The shapes must be compatible.
Array broadcast(const Array& x, const Shape& shape);

/// x, converted to this type and broadcast to the shape. Within a trace, or in `compose`.
Array conform(const Array& x, ElementType type, const Shape& shape);

/// x, converted to the dtype of `type`; x itself if it has that dtype.
Array convert(const Array& x, ElementType type);

/// y with 1 in place of 0, for integers: then a division by 0 has the remainder 0, as in JAX.
Array divisor(const Array& y);

/// The quotient rounded down, and the remainder with the sign of y, of floating numbers.
std::pair<Array, Array> float_divmod(const Array& x, const Array& y);

/// Whether x is finite; of a complex number, whether both parts are.
Array is_finite(const Array& x);

/// |x|², a real number, without a root.
Array squared_size(const Array& x);

/// x in f32 if its dtype is narrower, so that statistics neither overflow nor lose digits.
Array widened(const Array& x);

using Tracers = std::span<const Array>;

/// An operation with one result; see run_operation.
template <class Compose>
Array run(const std::string& name, const std::string& key, std::initializer_list<Array> operands,
          Compose&& compose) {
  auto composed = [&](Tracers tracers) { return std::vector<Array>{compose(tracers)}; };
  return std::move(
      run_operation(name, key, std::span<const Array>(operands.begin(), operands.size()), std::ref(composed))
          .front());
}

/// How the common dtype of elementwise operands is determined.
enum class Meet {
  kPromote,  ///< promote()
  kInexact,  ///< promote(), then to_inexact()
  kNumbers,  ///< promote(), of bools i32
};

/// An elementwise operation: promotes and broadcasts the operands, and calls `compose` with the results.
/// Errors name the operation and the call site of the first operand.
Array elementwise(const std::string& name, const std::string& key, Meet meet,
                  std::initializer_list<const Operand*> operands,
                  const std::function<Array(Tracers)>& compose);

/// The same, of one primitive.
Array elementwise(const std::string& name, Meet meet, const ir::Primitive& primitive,
                  std::initializer_list<const Operand*> operands);

/// The axis as a number from 0; a negative axis counts from the end. Throws ShapeError if it is out of range
/// for rank `rank`; `operand` is the value, for the message.
std::int64_t axis_of(std::string_view operation, std::int64_t axis, std::int64_t rank, const Aval& operand);

/// " (at train.cc:42)": the current call site, for messages.
std::string at();

}  // namespace lockstep::ops
