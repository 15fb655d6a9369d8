#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "lockstep/ops/operand.h"
#include "lockstep/ops/reduction.h"

/// Decompositions of matrices and what is made of them, with jax.numpy.linalg's names. Matrices stand in the
/// last two dimensions; those before count them, and computations on many are split over devices by them.
/// Whole numbers and narrow floats are computed as f32; c64 is a DTypeError, shapes that do not fit a
/// ShapeError. On CPUs LAPACK computes the decompositions where OpenBLAS is installed. Elsewhere XLA's own
/// Cholesky, triangular systems, Householder's QR and Jacobi's rotations do, and what is made of these; eig,
/// schur and sqrtm are then an Error. Derivatives are JAX's.
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

/// The same by SciPy's name: op(a) y = b, where b is a vector, or matrices.
struct SolveTriangularOptions {
  bool lower = false;
  bool trans = false;  ///< aᵀ y = b
  bool unit_diagonal = false;
};
Array solve_triangular(const Operand& a, const Operand& b, SolveTriangularOptions options = {});

/// x = p l u, as in jax.scipy.linalg: a permutation of rows, a lower triangle with ones on its diagonal, and
/// an upper triangle. x has m rows and n columns, l min(m, n) columns and u as many rows.
struct LU {
  Array p, l, u;
};
LU lu(const Operand& x);

/// The same as one matrix: l below the diagonal, u on and above it; step i of the elimination changed rows i
/// and pivots[i] (i32).
struct LUFactor {
  Array lu, pivots;
};
LUFactor lu_factor(const Operand& x);

/// y with a y = b, of a's lu_factor; with aᵀ y = b where trans is 1. b is a vector, or matrices.
Array lu_solve(const LUFactor& factor, const Operand& b, int trans = 0);

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

/// Eigenvalues, in no order, and eigenvectors, in columns of length 1, of any square x: c64. x is f32, for
/// that of f64 would be complex numbers of 128 bits (DTypeError). The eigenvalues of eigvals have a
/// derivative; eigenvectors have none, as in JAX (TraceError).
struct Eig {
  Array eigenvalues, eigenvectors;
};
Eig eig(const Operand& x);
Array eigvals(const Operand& x);

/// x = z t zᵀ with orthonormal columns of z. t is an upper triangle; of a real x one with blocks of two rows
/// on its diagonal for pairs of conjugate eigenvalues, or, for SchurOutput::kComplex, a triangle of c64 (x is
/// f32 then). No derivative, as in JAX (TraceError).
struct Schur {
  Array t, z;
};
enum class SchurOutput { kReal, kComplex };
Schur schur(const Operand& x, SchurOutput output = SchurOutput::kReal);

/// The principal square root: y y = x, c64. x is f32. No derivative, as in JAX (TraceError).
Array sqrtm(const Operand& x);

/// The exponential, by Padé's approximation of x / 2^s, squared s times: Higham, "The scaling and squaring
/// method for the matrix exponential revisited" (2005). NaN where s would be above max_squarings.
Array expm(const Operand& x, int max_squarings = 16);

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

/// The x for which the sum of squares of a x - b is least, and of these the shortest; a is a matrix, b a
/// vector or a matrix (ShapeError; vmap for more). Singular values up to rcond times the largest count as 0
/// (by default max(m, n) * epsilon). `residuals` are those sums, for each column of b; `rank` is i32.
struct LeastSquares {
  Array x, residuals, rank, s;
};
LeastSquares lstsq(const Operand& a, const Operand& b, std::optional<double> rcond = std::nullopt);

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
