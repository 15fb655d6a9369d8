#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/ops/operand.h"
#include "lockstep/program/precision.h"

/// Products of vectors and matrices, as in NumPy. Dtypes are promoted. Shapes that do not fit are a
/// ShapeError, which names both and the user's line.
namespace lockstep {

struct DotOptions {
  Precision precision = Precision::kDefault;

  /// The dtype of the result and of the sums, of the operands' kind and no narrower (DTypeError): f32 for
  /// products of bf16, i32 for products of i8. By default the operands'. Derivatives have the operands'.
  std::optional<DType> preferred_element_type = {};
};

/// The product of matrices in the last two dimensions; those before are broadcast. A vector on the left is a
/// row, on the right a column, and its dimension is not in the result. Scalars are a ShapeError.
Array matmul(const Operand& x, const Operand& y, const DotOptions& options = {});

/// The sum over the last dimension of x and the last but one of y (the only one of a vector); the result has
/// x's other dimensions, then y's. With a scalar, the product.
Array dot(const Operand& x, const Operand& y, const DotOptions& options = {});

/// The sum of products over the last `axes` dimensions of x and the first of y, or over pairs of dimensions;
/// the result has x's other dimensions, then y's.
Array tensordot(const Operand& x, const Operand& y, std::int64_t axes = 2, const DotOptions& options = {});
Array tensordot(const Operand& x, const Operand& y, const std::vector<std::int64_t>& x_axes,
                const std::vector<std::int64_t>& y_axes, const DotOptions& options = {});

namespace ops {
/// Tells one such product from another, in the key of an operation.
std::string key_of(const DotOptions& options);
}  // namespace ops

/// The sum of products over the last dimension of both; of all elements.
Array inner(const Operand& x, const Operand& y);
Array vdot(const Operand& x, const Operand& y);

/// The Kronecker product: blocks x[i, j] * y. Both have as many dimensions (ShapeError).
Array kron(const Operand& x, const Operand& y);

/// x[i] * y[j], of the operands raveled.
Array outer(const Operand& x, const Operand& y);

/// jax.lax.ragged_dot: the rows of x, [m, k], in groups one behind the other, each times its group's matrix
/// of y, [groups, k, n]. group_sizes are integers, [groups]; rows behind the last group give 0. ShapeError or
/// DTypeError for others.
Array ragged_dot(const Operand& x, const Operand& y, const Operand& group_sizes);

}  // namespace lockstep
