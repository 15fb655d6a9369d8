// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lockstep/program/primitive.h"

/// Shared by the rules of decompositions. The last two dimensions are matrices; the dimensions before are
/// batch dimensions.
namespace lockstep::ir::matrices {

/// Throws DTypeError unless x is f32 or f64, and ShapeError unless it has matrices, or, with `square`, square
/// matrices.
void check(const Aval& x, bool square);

/// A rule in which the batch dimensions are factors, and the dimensions of the matrices are whole.
ShardingRule by_matrix(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams&);

/// The shape with other numbers of rows and columns; the shape without the matrix dimensions.
Shape with_matrix(Shape shape, std::int64_t rows, std::int64_t columns);
Shape batch_of(const Shape& shape);

std::int64_t rows(const Value& x);
std::int64_t columns(const Value& x);

Value transposed(const Value& x);
Value product(const Value& x, const Value& y);

/// lower_part: x with zeros above the diagonal. below_diagonal: with zeros on and above it. upper_part: with
/// zeros below it. eye: ones on the diagonal, with x's shape.
Value lower_part(const Value& x);
Value below_diagonal(const Value& x);
Value upper_part(const Value& x);
Value eye(const Value& like);

/// The diagonals, of min(rows, columns) elements.
Value diagonal(const Value& x);

/// A value for each column, or row, of each matrix, broadcast to x's shape.
Value for_columns(const Value& values, const Shape& shape);
Value for_rows(const Value& values, const Shape& shape);

/// The part of each matrix with these rows and columns.
Value part(const Value& x, std::int64_t first_row, std::int64_t end_row, std::int64_t first_column,
           std::int64_t end_column);

/// Batching for operands with a common batch, if only some have the mapped dimension
/// (rules::batch_elementwise).
std::function<std::vector<Value>(const BatchCall&)> batching(const Primitive& (*self)());

/// The text of x with zeros where the comparison `row direction column` is false.
std::string triangle(Lowering& out, const std::string& x, DType dtype, const Shape& shape,
                     std::string_view direction);

/// Throws the Error of a routine that needs LAPACK, with the user's line.
[[noreturn]] void fail_without_lapack(std::string_view operation, bool may_call);

}  // namespace lockstep::ir::matrices
