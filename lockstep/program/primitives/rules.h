#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/program/primitive.h"

/// Rules that families of primitives share.
namespace lockstep::rules {

/// Throws ShapeError unless all operands have one shape, and DTypeError unless they have one dtype.
void same_shapes(std::span<const Aval> inputs);
void same_dtypes(std::span<const Aval> inputs);

/// JVP of an operation of one operand, from the tangent, the operand and the result.
using UnaryTangent = std::function<Value(const Value& t, const Value& x, const Value& y)>;
std::function<Tangents(const JvpCall&)> unary_jvp(UnaryTangent tangent);

/// JVP of an operation that is linear in its first operand and has no other with a derivative: the operation
/// itself, on the tangent.
std::function<Tangents(const JvpCall&)> linear_jvp(const Primitive& (*self)());

/// The operation, which is linear in these operands.
Primitive linear_in(std::vector<std::vector<std::size_t>> together, Primitive primitive);

/// Batching of an operation on operands of one shape: those without the mapped dimension are broadcast over
/// it.
std::vector<Value> batch_elementwise(const Primitive& primitive, const BatchCall& call);

/// The aval in another shape, which varies over nothing.
Aval with_shape(const Aval& aval, Shape shape);

/// Zeros of the aval's dtype and shape, in the builder of `like`.
Value zeros(const Value& like, const Aval& aval);

/// Throws ShapeError unless `given` is the number of the aval's dimensions; `what` is what is given for each
/// of them.
void check_rank(std::size_t given, const Aval& aval, std::string_view what);

/// A rule under which operand 0 and the result share the dimensions for which `keeps` is true, and have the
/// others whole. Further operands are whole.
ShardingRule keeping(std::span<const Aval> inputs, std::span<const Aval> outputs,
                     const std::function<bool(std::size_t dimension)>& keeps);

/// x with a new leading dimension of the size, in which it repeats.
Value broadcast_leading(const Value& x, std::int64_t size);

/// Each of the dimensions, moved up by one: what batching does to a list of dimensions.
std::vector<std::int64_t> shifted(std::vector<std::int64_t> dimensions);

/// `value` put in front.
std::vector<std::int64_t> prepended(std::int64_t value, std::vector<std::int64_t> values);

/// The largest (`sign` > 0) or smallest (`sign` < 0) value of a dtype that is not complex; infinities where
/// it has them.
Scalar extreme(DType dtype, int sign);

/// Text of places of this dtype and shape, whose last dimension has one for each of `last` (a scalar: one),
/// taken to between 0 and that. XLA does so itself where it slices and gathers; but of a slice of a slice it
/// adds up the starts as they are, and one that is out of bounds is then another element.
std::string within_bounds(Lowering& out, const std::string& places, DType dtype, const Shape& shape,
                          const std::vector<std::int64_t>& last);

/// Lowers to one StableHLO operation on all operands.
std::function<std::vector<std::string>(Lowering&, const Equation&)> lower_as(std::string stablehlo);

}  // namespace lockstep::rules
