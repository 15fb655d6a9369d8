#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "lockstep/ops/operand.h"
#include "lockstep/ops/reduction.h"

/// Decompositions of matrices and what is made of them, with jax.numpy.linalg's names. Matrices stand in the
/// last two dimensions; those before count them, and computations on many are split over devices by them.
/// Whole numbers and narrow floats are computed as f32; c64 is a DTypeError, shapes that do not fit a
/// ShapeError. Nothing needs LAPACK: XLA itself has Cholesky's decomposition, triangular systems,
/// Householder's QR and Jacobi's eigenvalues; the rest is made of these.
namespace lockstep::linalg {

/// The lower triangle l with x = l lᵀ, of a symmetric positive definite x; NaN where it is not.
Array cholesky(const Operand& x);

/// op(a) y = b of a triangular a.
struct TriangularOptions {
  bool left_side = false;  ///< false: y op(a) = b, as in jax.lax.linalg
  bool lower = false;
  bool transpose_a = false;
  bool unit_diagonal = false;
};
Array triangular_solve(const Operand& a, const Operand& b, TriangularOptions options = {});

/// x = q r, of orthonormal columns and an upper triangle. Reduced: min(m, n) columns; complete: m.
struct QR {
  Array q, r;
};
enum class QRMode { kReduced, kComplete };
QR qr(const Operand& x, QRMode mode = QRMode::kReduced);

/// Eigenvalues, in rising order, and eigenvectors, in columns, of a symmetric x; its lower triangle is read.
struct Eigh {
  Array eigenvalues, eigenvectors;
};
Eigh eigh(const Operand& x);
Array eigvalsh(const Operand& x);

/// x = u diag(s) vh, with s in falling order and the min(m, n) leading columns and rows (JAX's
/// full_matrices=False).
struct SVD {
  Array u, s, vh;
};
SVD svd(const Operand& x);
Array svdvals(const Operand& x);

/// y with a y = b; b is a vector, or matrices.
Array solve(const Operand& a, const Operand& b);
Array inv(const Operand& x);

/// The pseudo-inverse: singular values below rcond times the largest count as 0 (by default 10 * max(m, n) *
/// epsilon).
Array pinv(const Operand& x, std::optional<double> rcond = std::nullopt);

/// The determinant; its sign and the logarithm of its size.
Array det(const Operand& x);
std::pair<Array, Array> slogdet(const Operand& x);

/// How many singular values are above max(m, n) * epsilon times the largest: i32.
Array matrix_rank(const Operand& x);

/// x multiplied by itself; n below 0 inverts.
Array matrix_power(const Operand& x, std::int64_t n);

struct NormOptions {
  std::optional<double> ord = {};  ///< 2 by default; infinity and -infinity: the largest and smallest
  std::optional<std::int64_t> axis = {};
  bool keepdims = false;
};

/// The norm of vectors along the axis: (sum |x|^ord)^(1/ord); ord 0 counts what is not 0. Without an axis: of
/// all elements, which for a matrix is Frobenius's norm.
Array norm(const Operand& x, NormOptions options = {});

}  // namespace lockstep::linalg
