// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "lockstep/ops/operand.h"
#include "lockstep/ops/reduction.h"

/// Decompositions of matrices and functions made from them, with jax.numpy.linalg's names. The last two
/// dimensions are matrices; the dimensions before are batch dimensions, over which computations may be split
/// over devices. Integers and narrow floats are computed in f32. Complex matrices are a DTypeError, shapes
/// that do not match a ShapeError. On CPUs, LAPACK computes the decompositions if OpenBLAS is installed, on
/// NVIDIA GPUs cuSOLVER. Otherwise XLA's Cholesky, triangular solve, Householder QR and Jacobi eigenvalue
/// algorithm are used, and the other functions are composed of them. eig, schur and sqrtm are LAPACK's on
/// CPUs and GPUs, and otherwise throw an Error. The derivatives are JAX's.
namespace lockstep::linalg {

/// The lower triangular l with x = l lᵀ, for a symmetric positive definite x; NaN if x is not.
Array cholesky(const Operand& x);

/// Solves op(a) y = b for a triangular a.
struct TriangularOptions {
  bool left_side = false;  ///< false: solve y op(a) = b, as in jax.lax.linalg
  bool lower = false;
  bool transpose_a = false;
  bool unit_diagonal = false;
};
Array triangular_solve(const Operand& a, const Operand& b, TriangularOptions options = {});

/// SciPy's form of it: solves op(a) y = b, where b is a vector or a batch of matrices.
struct SolveTriangularOptions {
  bool lower = false;
  bool trans = false;  ///< solve aᵀ y = b
  bool unit_diagonal = false;
};
Array solve_triangular(const Operand& a, const Operand& b, SolveTriangularOptions options = {});

/// x = p l u, as in jax.scipy.linalg: a row permutation, a lower triangular matrix with ones on its diagonal,
/// and an upper triangular matrix. For an x of m rows and n columns, l has min(m, n) columns and u min(m, n)
/// rows.
struct LU {
  Array p, l, u;
};
LU lu(const Operand& x);

/// LU in one matrix: l below the diagonal, u on and above it. Step i of the elimination exchanged rows i and
/// pivots[i] (i32).
struct LUFactor {
  Array lu, pivots;
};
LUFactor lu_factor(const Operand& x);

/// Solves a y = b, or aᵀ y = b if trans is 1, with a's lu_factor. b is a vector or a batch of matrices.
Array lu_solve(const LUFactor& factor, const Operand& b, int trans = 0);

/// x = q r, with orthonormal columns of q and an upper triangular r. q has min(m, n) columns if reduced, m if
/// complete.
struct QR {
  Array q, r;
};
enum class QRMode { kReduced, kComplete };
QR qr(const Operand& x, QRMode mode = QRMode::kReduced);

/// The reduced decomposition of a matrix of many rows by blocks of them: a decomposition of each, and one of
/// their r factors (Demmel, Grigori, Hoemmen and Langou, 2012). If x is split by rows into as many blocks,
/// only the r factors are gathered, blocks * n * n elements. The signs of r's rows, and of q's columns, may
/// differ from those of qr. The derivatives are those of both decompositions. Throws ShapeError unless the
/// blocks are equal, with at least as many rows as columns. The singular value decomposition of such a
/// matrix, without gathering it: with [q, r] = tsqr(x, blocks) and [u, s, vh] = svd(r), it is matmul(q, u),
/// s, vh.
QR tsqr(const Operand& x, std::int64_t blocks);

/// Eigenvalues, in ascending order, and eigenvectors, as columns, of a symmetric x. Only its lower triangle
/// is read.
struct Eigh {
  Array eigenvalues, eigenvectors;
};
Eigh eigh(const Operand& x);
Array eigvalsh(const Operand& x);

/// Eigenvalues, in no particular order, and eigenvectors, as columns of length 1, of any square x, as c64,
/// or c128 for f64. The eigenvalues of eigvals have a derivative; eigenvectors have none, as in JAX
/// (TraceError).
struct Eig {
  Array eigenvalues, eigenvectors;
};
Eig eig(const Operand& x);
Array eigvals(const Operand& x);

/// x = z t zᵀ with orthonormal columns of z. For a real x, t is upper triangular except for blocks of two
/// rows on its diagonal for pairs of conjugate eigenvalues. With SchurOutput::kComplex, t is upper triangular
/// and c64, or c128 for f64. No derivative, as in JAX (TraceError).
struct Schur {
  Array t, z;
};
enum class SchurOutput { kReal, kComplex };
Schur schur(const Operand& x, SchurOutput output = SchurOutput::kReal);

/// The principal square root y, y y = x, as c64, or c128 for f64. No derivative, as in JAX (TraceError).
Array sqrtm(const Operand& x);

/// The matrix exponential: a Padé approximation for x / 2^s, squared s times. Higham, "The scaling and
/// squaring method for the matrix exponential revisited" (2005). NaN if s would be above max_squarings.
Array expm(const Operand& x, int max_squarings = 16);

/// x = u diag(s) vh, with s in descending order and the first min(m, n) columns of u and rows of vh (JAX's
/// full_matrices=False).
struct SVD {
  Array u, s, vh;
};
SVD svd(const Operand& x);
Array svdvals(const Operand& x);

/// solve: y with a y = b, where b is a vector or a batch of matrices.
Array solve(const Operand& a, const Operand& b);
Array inv(const Operand& x);

/// The pseudo-inverse. Singular values below rcond times the largest one count as 0; by default rcond is 10 *
/// max(m, n) * epsilon.
Array pinv(const Operand& x, std::optional<double> rcond = std::nullopt);

/// The x that minimizes the sum of squares of a x - b, and among these the shortest one. a is a matrix, b a
/// vector or a matrix (ShapeError otherwise; use vmap for batches). Singular values up to rcond times the
/// largest one count as 0; by default rcond is max(m, n) * epsilon. `residuals` are the sums of squares for
/// each column of b; `rank` is i32.
struct LeastSquares {
  Array x, residuals, rank, s;
};
LeastSquares lstsq(const Operand& a, const Operand& b, std::optional<double> rcond = std::nullopt);

/// det: the determinant. slogdet: its sign and the logarithm of its absolute value.
Array det(const Operand& x);
std::pair<Array, Array> slogdet(const Operand& x);

/// The number of singular values above max(m, n) * epsilon times the largest one: i32.
Array matrix_rank(const Operand& x);

/// The n-th power of a matrix; for a negative n, of the inverse.
Array matrix_power(const Operand& x, std::int64_t n);

struct NormOptions {
  std::optional<double> ord = {};  ///< by default 2; infinity and -infinity: the largest and smallest
                                   ///< absolute value, or sum of a row
  std::optional<std::int64_t> axis = {};
  bool keepdims = false;
};

/// The norm of vectors along the axis: (sum |x|^ord)^(1/ord); ord 0 counts the elements that are not 0.
/// Without an axis and ord it is the norm over all elements, which for a matrix is the Frobenius norm.
/// Without an axis a matrix has the norm that ord says: 1 and -1 the largest and smallest sum |x| of a
/// column, 2 and -2 singular value, infinity and -infinity sum |x| of a row. Throws Error for other ords and
/// more dimensions.
Array norm(const Operand& x, NormOptions options = {});

}  // namespace lockstep::linalg
