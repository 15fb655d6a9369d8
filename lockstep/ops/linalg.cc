// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/linalg.h"

#include <cmath>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/indexing.h"
#include "lockstep/ops/linalg_internal.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/rearrange.h"
#include "lockstep/ops/shape.h"
#include "lockstep/program/primitives/decompositions.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/linalg.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::linalg {

using ops::Tracers;

namespace internal {

void check(std::string_view operation, const Operand& x, bool square) {
  if (info(x.type().dtype).kind == DTypeKind::kComplex) {
    fail<DTypeError>("[linalg::{}] expected real numbers, got {}{}", operation, to_string(x.aval()),
                     ops::at());
  }
  if (x.shape().size() < 2 || (square && rows(x.shape()) != x.shape().back())) {
    fail<ShapeError>("[linalg::{}] expected {} in the last two dimensions, got {}{}", operation,
                     square ? "square matrices" : "matrices", to_string(x.aval()), ops::at());
  }
}

std::vector<Array> run(const std::string& name, std::initializer_list<Array> operands,
                       const std::function<std::vector<Array>(Tracers)>& compose, const std::string& key) {
  return run_operation("linalg::" + name, key, std::span<const Array>(operands.begin(), operands.size()),
                       [&](Tracers t) {
                         std::vector<Array> converted;
                         DType dtype = DType::kF32;
                         for (const Array& x : t) dtype = x.dtype() == DType::kF64 ? DType::kF64 : dtype;
                         for (const Array& x : t) converted.push_back(astype(x, dtype));
                         return compose(converted);
                       });
}

Array transposed(const Array& x) { return swapaxes(x, -1, -2); }

Array identity_like(const Array& x) {
  return ops::broadcast(eye(x.shape().back(), x.shape().back(), x.dtype()), x.shape());
}

Array diagonal_of(const Array& x) { return sum(x * identity_like(x), -1); }

std::pair<Array, Array> with_common_batch(std::string_view operation, const Array& a, const Array& b) {
  Aval batches[] = {a.aval(), b.aval()};
  for (Aval& aval : batches) aval.shape.resize(aval.shape.size() - 2);
  const Shape batch = ops::broadcast_shapes(operation, batches);
  auto spread = [&](const Array& x) {
    Shape shape = batch;
    shape.insert(shape.end(), x.shape().end() - 2, x.shape().end());
    return ops::broadcast(x, shape);
  };
  return {spread(a), spread(b)};
}

void check_system(std::string_view operation, const Operand& a, const Operand& b) {
  const bool vector = b.shape().size() == 1;
  const std::int64_t size = b.shape().empty() ? -1 : vector ? b.shape()[0] : rows(b.shape());
  if (size == a.shape().back()) return;
  fail<ShapeError>(
      "[linalg::{}] {} and {} do not fit{}; expected the second to have as many rows as the first has "
      "columns",
      operation, to_string(a.aval()), to_string(b.aval()), ops::at());
}

}  // namespace internal

namespace {

using namespace internal;

Array symmetrized(const Array& x) { return (x + transposed(x)) * 0.5; }

/// An operation on one operand, with as many results as its struct has.
std::vector<Array> of_one(const std::string& name, const Operand& x, bool square,
                          const std::function<std::vector<Array>(const Array&)>& compose,
                          const std::string& key = "") {
  CallSiteScope here(x.site());
  check(name, x, square);
  return run(
      name, {x.as_array()}, [&](Tracers t) { return compose(t[0]); }, key);
}

/// The leading rows and columns.
Array corner(const Array& x, std::int64_t rows, std::int64_t columns) {
  Shape limit = x.shape();
  limit[limit.size() - 2] = rows;
  limit.back() = columns;
  return limit == x.shape() ? x : ir::lax::slice(x, Shape(limit.size(), 0), limit);
}

}  // namespace

Array cholesky(const Operand& x) {
  return of_one("cholesky", x, true,
                [](const Array& x) -> std::vector<Array> { return {ir::lax::cholesky(symmetrized(x))}; })[0];
}

Array triangular_solve(const Operand& a, const Operand& b, TriangularOptions options) {
  CallSiteScope here(a.site());
  check("triangular_solve", a, true);
  check("triangular_solve", b, false);
  return run(
      "triangular_solve", {a.as_array(), b.as_array()},
      [&](Tracers t) {
        auto [left, right] = with_common_batch("linalg::triangular_solve", t[0], t[1]);
        return std::vector<Array>{ir::lax::triangular_solve(
            left, right,
            lockstep::ir::TriangularSolveParams{options.left_side, options.lower, options.transpose_a,
                                                options.unit_diagonal})};
      },
      fmt::format("{} {} {} {}", options.left_side, options.lower, options.transpose_a,
                  options.unit_diagonal))[0];
}

Array solve_triangular(const Operand& a, const Operand& b, SolveTriangularOptions options) {
  CallSiteScope here(a.site());
  check("solve_triangular", a, true);
  check_system("solve_triangular", a, b);
  const bool vector = b.shape().size() == 1;
  return run(
      "solve_triangular", {a.as_array(), b.as_array()},
      [&](Tracers t) {
        auto [left, right] =
            with_common_batch("linalg::solve_triangular", t[0], vector ? expand_dims(t[1], 1) : t[1]);
        const Array y = ir::lax::triangular_solve(
            left, right,
            lockstep::ir::TriangularSolveParams{true, options.lower, options.trans, options.unit_diagonal});
        return std::vector<Array>{vector ? squeeze(y, -1) : y};
      },
      fmt::format("{} {} {} {}", options.lower, options.trans, options.unit_diagonal, vector))[0];
}

LU lu(const Operand& x) {
  std::vector<Array> parts = of_one("lu", x, false, [](const Array& x) -> std::vector<Array> {
    const std::int64_t m = rows(x.shape()), n = x.shape().back(), k = std::min(m, n);
    const std::vector<Array> found = ir::lax::lu(x);
    const Array order = expand_dims(arange(m, DType::kI32), -1);  // row i of l u is row permutation[i]
    const Array p = astype(order == expand_dims(found[2], -2), x.dtype());
    const Array l = tril(corner(found[0], m, k), -1) + eye(m, k, x.dtype());
    return {p, l, triu(corner(found[0], k, n))};
  });
  return {parts[0], parts[1], parts[2]};
}

LUFactor lu_factor(const Operand& x) {
  std::vector<Array> parts = of_one("lu_factor", x, false, [](const Array& x) -> std::vector<Array> {
    const std::vector<Array> found = ir::lax::lu(x);
    return {found[0], found[1]};
  });
  return {parts[0], parts[1]};
}

QR qr(const Operand& x, QRMode mode) {
  CallSiteScope here(x.site());
  check("qr", x, false);
  const bool complete = mode == QRMode::kComplete;
  std::vector<Array> parts = run(
      "qr", {x.as_array()},
      [&](Tracers t) {
        const std::int64_t m = rows(t[0].shape()), n = t[0].shape().back();
        if (!complete || m <= n) {
          std::vector<Array> all = ir::lax::qr(t[0]);
          return std::vector<Array>{all[0], all[1]};
        }
        // Columns of zeros need no reflection, and q has a column for each.
        std::vector<std::pair<std::int64_t, std::int64_t>> widths(t[0].shape().size());
        widths.back().second = m - n;
        std::vector<Array> all = ir::lax::qr(pad(t[0], widths));
        return std::vector<Array>{all[0],
                                  ir::lax::slice(all[1], Shape(t[0].shape().size(), 0), t[0].shape())};
      },
      complete ? "complete" : "reduced");
  return {parts[0], parts[1]};
}

QR tsqr(const Operand& operand, std::int64_t blocks) {
  CallSiteScope here(operand.site());
  check("tsqr", operand, false);
  const Array x = operand.as_array();
  const std::int64_t m = rows(x.shape()), n = x.shape().back();
  if (blocks < 1 || m % blocks != 0 || m / blocks < n) {
    fail<ShapeError>(
        "[linalg::tsqr] expected equal blocks with at least as many rows as columns, got {} blocks of {} (at "
        "{})",
        blocks, lockstep::to_string(x.shape()), operand.site().to_string());
  }
  const Shape batch(x.shape().begin(), x.shape().end() - 2);
  auto with = [&](std::initializer_list<std::int64_t> sizes) {
    Shape shape = batch;
    shape.insert(shape.end(), sizes);
    return shape;
  };
  const QR parts = qr(reshape(x, with({blocks, m / blocks, n})));
  const QR whole = qr(reshape(parts.r, with({blocks * n, n})));
  return {reshape(matmul(parts.q, reshape(whole.q, with({blocks, n, n}))), x.shape()), whole.r};
}

Eigh eigh(const Operand& x) {
  std::vector<Array> parts =
      of_one("eigh", x, true, [](const Array& x) { return ir::lax::eigh(symmetrized(x)); });
  return {parts[1], parts[0]};
}

Array eigvalsh(const Operand& x) { return eigh(x).eigenvalues; }

SVD svd(const Operand& x) {
  std::vector<Array> parts = of_one("svd", x, false, [](const Array& x) { return ir::lax::svd(x); });
  return {parts[0], parts[1], parts[2]};
}

Array svdvals(const Operand& x) {
  return of_one("svdvals", x, false, [](const Array& x) { return ir::lax::svd(x, false); })[0];
}

Eig eig(const Operand& x) {
  std::vector<Array> parts = of_one("eig", x, true, [](const Array& x) { return ir::lax::eig(x); });
  return {parts[0], parts[1]};
}

Array eigvals(const Operand& x) {
  return of_one("eigvals", x, true, [](const Array& x) { return ir::lax::eig(x, false); })[0];
}

Schur schur(const Operand& x, SchurOutput output) {
  const bool is_complex = output == SchurOutput::kComplex;
  std::vector<Array> parts = of_one(
      "schur", x, true,
      [is_complex](const Array& x) { return is_complex ? ir::lax::complex_schur(x) : ir::lax::schur(x); },
      is_complex ? "complex" : "real");
  return {parts[0], parts[1]};
}

Array sqrtm(const Operand& x) {
  return of_one("sqrtm", x, true,
                [](const Array& x) -> std::vector<Array> { return {ir::lax::sqrtm(x)}; })[0];
}

namespace {

Array matrix_norm(const Array& y, double ord, bool keepdims) {
  const double size = std::abs(ord);
  if (y.ndim() != 2 || (size != 1 && size != 2 && !std::isinf(size))) {
    fail(
        "[linalg::norm] expected a vector, or a matrix and an ord of 1, -1, 2, -2, infinity or -infinity, "
        "got {} and {}{}; pass an axis for norms of vectors, or no ord for the norm over all elements",
        to_string(y.aval()), ord, ops::at());
  }
  const Array norms = size == 2 ? svdvals(y) : sum(abs(y), std::isinf(size) ? 1 : 0);
  const Array norm = ord < 0 ? min(norms) : norms.size() == 0 ? sum(norms) : max(norms);
  return keepdims ? reshape(norm, {1, 1}) : norm;
}

}  // namespace

Array norm(const Operand& x, NormOptions options) {
  CallSiteScope here(x.site());
  const double ord = options.ord.value_or(2);
  std::string key = fmt::format("{} {} {} {}", options.ord.has_value(), ord,
                                options.axis ? fmt::format("{}", *options.axis) : "all", options.keepdims);
  return ops::run("linalg::norm", key, {x.as_array()}, [&](Tracers t) {
    const ElementType type = to_inexact({t[0].dtype(), t[0].aval().weak_type});
    Array y = ops::convert(t[0], type);
    const ReduceOptions over{options.axis ? Axes(*options.axis) : Axes(), options.keepdims};
    if (options.ord && !options.axis && y.ndim() != 1) return matrix_norm(y, ord, options.keepdims);
    if (ord == 2) return sqrt(sum(ops::squared_size(y), over));
    if (ord > 0 && std::isinf(ord) && y.size() == 0) return sum(abs(y), over);
    if (std::isinf(ord)) return ord > 0 ? maximum(max(abs(y), over), 0) : min(abs(y), over);
    if (ord == 0) return sum(astype(y != 0, real_dtype(y.dtype())), over);
    if (ord == 1) return sum(abs(y), over);
    return power(sum(power(abs(y), ord), over), 1 / ord);
  });
}

}  // namespace lockstep::linalg
