#pragma once

// For the layers of the library that make operations of primitives: what operations on arrays have in common.

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

/// The shape that all of these broadcast to, by NumPy's rule: sizes are compared from the last dimension;
/// they are equal, or 1 and then repeated. Throws ShapeError, naming the operation, the operands and the
/// dimension.
Shape broadcast_shapes(std::string_view operation, std::span<const Aval> operands);

/// x with its elements repeated to the shape, which it broadcasts to.
Array broadcast(const Array& x, const Shape& shape);

/// x, of this type and broadcast to the shape. Within a trace, or in `compose`.
Array conform(const Array& x, ElementType type, const Shape& shape);

/// x with its dtype made that of `type`; as it is where it has that dtype.
Array convert(const Array& x, ElementType type);

/// y, of whole numbers with 1 in place of 0: divided by 0 they leave no remainder, as in JAX.
Array divisor(const Array& y);

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

/// How the dtype of elementwise operands is found.
enum class Meet {
  kPromote,  ///< promote()
  kInexact,  ///< promote(), then to_inexact()
};

/// An operation on operands of one shape and dtype, element by element: promotes and broadcasts them, and
/// gives `compose` the results. Errors name the operation and the place of the first operand.
Array elementwise(const std::string& name, const std::string& key, Meet meet,
                  std::initializer_list<const Operand*> operands,
                  const std::function<Array(Tracers)>& compose);

/// The axis counted from 0, for one counted from 0 or, negative, from the end. Throws ShapeError where a
/// value of rank `rank` has none such; `operand` is the value, for the message.
std::int64_t axis_of(std::string_view operation, std::int64_t axis, std::int64_t rank, const Aval& operand);

/// " (at train.cc:42)".
std::string at();

}  // namespace lockstep::ops
