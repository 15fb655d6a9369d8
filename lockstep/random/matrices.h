#pragma once

#include <optional>

#include "lockstep/random/random.h"

/// Random vectors and matrices of jax.random.
namespace lockstep::random {

/// Matrices of `rows` rows and `columns` columns (by default as many), `shape` of them, whose columns are
/// orthonormal, or whose rows are where there are fewer of these; uniform among all such. Of f32, or another
/// floating dtype; DTypeError otherwise, ShapeError for sizes below 0. JAX's numbers, as near as another
/// algorithm for QR is.
///
/// Source: Mezzadri, "How to generate random matrices from the classical compact groups" (2007).
Array orthogonal(const Operand& key, std::int64_t rows, const Shape& shape = {}, DType dtype = DType::kF32,
                 std::optional<std::int64_t> columns = std::nullopt);

/// Normal vectors of this mean, [..., n], and covariance, [..., n, n], which is symmetric and positive
/// definite (NaN where it is not): [shape..., n], where the shape is by default what mean and covariance
/// broadcast to. Of the dtype that both promote to. Throws ShapeError for shapes that do not fit.
Array multivariate_normal(const Operand& key, const Operand& mean, const Operand& covariance,
                          std::optional<Shape> shape = std::nullopt);

}  // namespace lockstep::random
