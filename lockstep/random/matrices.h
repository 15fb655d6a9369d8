// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/random/random.h"

/// Random vectors and matrices, as in jax.random.
namespace lockstep::random {

/// `shape` matrices of `rows` rows and `columns` columns (by default square). Their columns are orthonormal,
/// or their rows if there are fewer rows than columns; they are uniformly distributed over all such matrices.
/// The numbers are JAX's, within the precision of another QR algorithm. Throws DTypeError unless the dtype is
/// floating, ShapeError for negative sizes.
///
/// Source: Mezzadri, "How to generate random matrices from the classical compact groups" (2007).
Array orthogonal(const KeyOperand& key, std::int64_t rows, const Shape& shape = {}, DType dtype = DType::kF32,
                 std::optional<std::int64_t> columns = std::nullopt);

/// Normal vectors with this mean, [..., n], and covariance, [..., n, n], which must be symmetric and positive
/// definite (otherwise the result is NaN). The result is [shape..., n], in the dtype to which both promote.
/// The default shape is the one that mean and covariance broadcast to. Throws ShapeError for shapes that do
/// not match.
Array multivariate_normal(const KeyOperand& key, const Operand& mean, const Operand& covariance,
                          std::optional<Shape> shape = std::nullopt);

}  // namespace lockstep::random
