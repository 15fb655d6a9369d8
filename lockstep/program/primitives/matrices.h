#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lockstep/program/primitive.h"

/// What the rules of decompositions share. Matrices stand in the last two dimensions; those before count
/// them.
namespace lockstep::matrices {

/// Throws DTypeError unless x is of f32 or f64, and ShapeError unless it has matrices, or square ones.
void check(const Aval& x, bool square);

/// The dimensions that count matrices are factors; the matrices' own are whole.
ShardingRule by_matrix(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams&);

/// The shape with other rows and columns; without them.
Shape with_matrix(Shape shape, std::int64_t rows, std::int64_t columns);
Shape batch_of(const Shape& shape);

std::int64_t rows(const Value& x);
std::int64_t columns(const Value& x);

Value transposed(const Value& x);
Value product(const Value& x, const Value& y);

/// x with zeros above, on or above, and off the diagonal; that of x's shape with ones on it.
Value lower_part(const Value& x);
Value below_diagonal(const Value& x);
Value upper_part(const Value& x);
Value eye(const Value& like);

/// The diagonals: those of min(rows, columns) elements of square matrices.
Value diagonal(const Value& x);

/// A value for each column, or row, of each matrix, in x's shape.
Value for_columns(const Value& values, const Shape& shape);
Value for_rows(const Value& values, const Shape& shape);

/// The rows and columns from `start` to `limit` of each matrix.
Value part(const Value& x, std::int64_t first_row, std::int64_t end_row, std::int64_t first_column,
           std::int64_t end_column);

/// Operands of one another's batch, where only some have the mapped dimension (rules::batch_elementwise).
std::function<std::vector<Value>(const BatchCall&)> batching(const Primitive& (*self)());

/// Text of x with zeros where row `direction` column does not hold.
std::string triangle(Lowering& out, const std::string& x, DType dtype, const Shape& shape,
                     std::string_view direction);

/// The message of a routine that needs LAPACK, at the user's line.
[[noreturn]] void fail_without_lapack(std::string_view operation);

}  // namespace lockstep::matrices
