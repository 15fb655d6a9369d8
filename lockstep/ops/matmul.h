// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/ops/operand.h"
#include "lockstep/program/precision.h"

/// Products of vectors and matrices, as in NumPy. Dtypes are promoted. Shapes that do not match throw a
/// ShapeError that names both and the user's line.
namespace lockstep {

struct DotOptions {
  Precision precision = Precision::kDefault;

  /// The dtype of the result and of the sums; it must be of the operands' kind and no narrower (DTypeError):
  /// for example f32 for products of bf16, i32 for products of i8. By default the operands' dtype.
  /// Derivatives have the operands' dtype.
  std::optional<DType> preferred_element_type = {};
};

/// The matrix product in the last two dimensions; the dimensions before are broadcast. A vector on the left
/// is a row, one on the right a column, and its dimension is not in the result. Throws ShapeError for
/// scalars.
Array matmul(const Operand& x, const Operand& y, const DotOptions& options = {});

/// The sum over the last dimension of x and the second-to-last of y (the only one of a vector). The result
/// has x's other dimensions, then y's. With a scalar, the elementwise product.
Array dot(const Operand& x, const Operand& y, const DotOptions& options = {});

/// The sum of products over the last `axes` dimensions of x and the first of y, or over the given pairs of
/// dimensions. The result has x's other dimensions, then y's.
Array tensordot(const Operand& x, const Operand& y, std::int64_t axes = 2, const DotOptions& options = {});
Array tensordot(const Operand& x, const Operand& y, const std::vector<std::int64_t>& x_axes,
                const std::vector<std::int64_t>& y_axes, const DotOptions& options = {});

namespace ir {
struct DotGeneralParams;
}

namespace ops {
/// lax::dot_general with the options; of bools whether any of the products is true, a bool, as in JAX.
Array dot_general(const Array& x, const Array& y, ir::DotGeneralParams params, const DotOptions& options);

/// The part of an operation's key that distinguishes these options.
std::string key_of(const DotOptions& options);
}  // namespace ops

/// inner: the sum of products over the last dimension of both. vdot: over all elements.
Array inner(const Operand& x, const Operand& y);
Array vdot(const Operand& x, const Operand& y);

/// The Kronecker product, with blocks x[i, j] * y. Throws ShapeError unless both have the same number of
/// dimensions.
Array kron(const Operand& x, const Operand& y);

/// x[i] * y[j], where both operands are flattened.
Array outer(const Operand& x, const Operand& y);

/// jax.lax.ragged_dot: consecutive groups of rows of x, [m, k], each multiplied by the matrix of its group in
/// y, [groups, k, n]. group_sizes are integers, [groups]; rows after the last group give 0. Throws ShapeError
/// or DTypeError for other operands.
Array ragged_dot(const Operand& x, const Operand& y, const Operand& group_sizes);

/// The same of rows in any order: `groups`, i32[m], has the number of each row's matrix. A row with another
/// number than those of the matrices gives 0. As the product with each token's expert; on CPUs oneDNN
/// multiplies the rows of each matrix at once, elsewhere every row is multiplied by every matrix.
Array grouped_matmul(const Operand& x, const Operand& y, const Operand& groups);

}  // namespace lockstep
