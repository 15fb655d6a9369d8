// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/program/primitive.h"
#include "lockstep/program/vmap_method.h"

/// Rules shared by families of primitives.
namespace lockstep::ir::rules {

/// Throws ShapeError unless all operands have one shape, and DTypeError unless they have one dtype.
void same_shapes(std::span<const Aval> inputs);
void same_dtypes(std::span<const Aval> inputs);

/// The dtypes that a primitive takes: all but bools, and all but complex numbers.
inline bool is_number(DType dtype) { return dtype != DType::kBool; }
inline bool is_ordered(DType dtype) { return !is_complex(dtype); }

/// The JVP of an operation with one operand: computed from the tangent, the operand and the result.
using UnaryTangent = std::function<Value(const Value& t, const Value& x, const Value& y)>;
std::function<Tangents(const JvpCall&)> unary_jvp(UnaryTangent tangent);

/// The JVP of an operation that is linear in its first operand and has no other differentiable operand: the
/// operation itself, applied to the tangent.
std::function<Tangents(const JvpCall&)> linear_jvp(const Primitive& (*self)());

/// The same of an operation that is linear in each of its first two operands, for the other one fixed: the
/// sum of both.
std::function<Tangents(const JvpCall&)> bilinear_jvp(const Primitive& (*self)());

/// The primitive, marked as linear in these operands.
Primitive linear_in(std::vector<std::vector<std::size_t>> together, Primitive primitive);

/// Batching of an operation whose operands have one shape: operands without the mapped dimension are
/// broadcast.
std::vector<Value> batch_elementwise(const Primitive& primitive, const BatchCall& call);

/// The operands of one call for all examples, which comes from outside: kExpandDims and kBroadcastAll.
std::vector<Value> operands_of_all_examples(const BatchCall& call, VmapMethod method);

/// The i-th of the examples in the first dimension.
Value example(const Value& x, std::int64_t i);

/// The aval with another shape, without varying axes.
Aval with_shape(const Aval& aval, Shape shape);

/// Zeros with the aval's dtype and shape, in the builder of `like`.
Value zeros(const Value& like, const Aval& aval);

/// Throws ShapeError unless `given` is the number of the aval's dimensions; `what` describes the values given
/// for each of them.
void check_rank(std::size_t given, const Aval& aval, std::string_view what);

/// A rule in which operand 0 and the result share the factors of the dimensions for which `keeps` is true,
/// and have the other dimensions whole. Further operands are whole.
ShardingRule keeping(std::span<const Aval> inputs, std::span<const Aval> outputs,
                     const std::function<bool(std::size_t dimension)>& keeps);

/// x repeated along a new first dimension of this size.
Value broadcast_leading(const Value& x, std::int64_t size);

/// The dimensions plus one: the effect of batching on a list of dimensions.
std::vector<std::int64_t> shifted(std::vector<std::int64_t> dimensions);

/// The list with `value` added in front.
std::vector<std::int64_t> prepended(std::int64_t value, std::vector<std::int64_t> values);

/// The largest (`sign` > 0) or smallest (`sign` < 0) value of a dtype that is not complex; infinities if it
/// has them.
Scalar extreme(DType dtype, int sign);

/// The text of positions of this dtype and shape, clamped to between 0 and `last`. The last dimension has one
/// position for each entry of `last` (a scalar: one). XLA clamps positions itself when it slices and gathers;
/// but for a slice of a slice it adds the unclamped starts, so that a start out of bounds selects another
/// element.
std::string within_bounds(Lowering& out, const std::string& places, DType dtype, const Shape& shape,
                          const std::vector<std::int64_t>& last);

/// Lowers to one StableHLO operation with all operands.
std::function<std::vector<std::string>(Lowering&, const Equation&)> lower_as(std::string stablehlo);

}  // namespace lockstep::ir::rules
