#include "lockstep/ops/linalg.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/indexing.h"
#include "lockstep/ops/linear_algebra.h"
#include "lockstep/ops/shape.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/linalg.h"
#include "lockstep/program/primitives/reverse.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::linalg {
namespace {

using ops::Tracers;

std::int64_t rows(const Shape& shape) { return shape[shape.size() - 2]; }

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

/// As an operation of several results, of its operands made floating.
template <class Compose>
std::vector<Array> run(const std::string& name, std::initializer_list<Array> operands, Compose compose,
                       const std::string& key = "") {
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
/// The columns, or of vectors the elements, in the other order.
Array reversed(const Array& x) { return lax::rev(x, {x.ndim() - 1}); }
Array symmetrized(const Array& x) { return (x + transposed(x)) * 0.5; }
double epsilon(DType dtype) { return dtype == DType::kF64 ? std::ldexp(1.0, -52) : std::ldexp(1.0, -23); }

Array identity_like(const Array& x) {
  return ops::broadcast(eye(x.shape().back(), x.shape().back(), x.dtype()), x.shape());
}

Array solved(const Array& a, const Array& b, lockstep::TriangularSolveParams params) {
  return lax::triangular_solve(a, b, params);
}

/// a y = b through a = q r.
Array solve_matrices(const Array& a, const Array& b) {
  std::vector<Array> parts = lax::qr(a);
  return solved(parts[1], matmul(transposed(parts[0]), b), {true, false, false, false});
}

/// With b's dimensions before the last two those of a, and the other way round.
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

/// Eigenvectors and eigenvalues of a symmetric x. XLA's rotations leave what is below 1e-8 of the diagonal,
/// so in f64 they are refined once: Ogita and Aishima, "Iterative refinement for symmetric eigenvalue
/// decomposition" (2018).
std::vector<Array> eigen(const Array& x) {
  std::vector<Array> pair = lax::eigh(x);
  if (x.dtype() != DType::kF64) return pair;
  const Array v = pair[0], identity = identity_like(x);
  const Array r = identity - matmul(transposed(v), v), s = matmul(transposed(v), matmul(x, v));
  const Array w = sum(s * identity, -1) / (1.0 - sum(r * identity, -1));
  const Array columns = expand_dims(w, -2);
  auto size = [](const Array& y) { return sqrt(sum(square(y), {.axis = {-2, -1}, .keepdims = true})); };
  const Array near = stop_gradient(2.0 * (size(s - identity * columns) + size(x) * size(r)));
  const Array gap = columns - expand_dims(w, -1), close = abs(gap) <= near;
  const Array turn = where(close, r * 0.5, (s + columns * r) / where(close, 1.0, gap));
  return {v + matmul(v, turn), w};
}

/// Columns that are orthonormal up to some that may be anything become orthonormal, the others as they were.
Array orthonormal(const Array& x) {
  std::vector<Array> parts = lax::qr(x);
  Array diagonal = sum(parts[1] * identity_like(parts[1]), -2);
  return parts[0] * expand_dims(where(diagonal < 0, -1.0, 1.0), -2);
}

/// The decomposition of a square matrix x: the eigenvalues of [0 x; xᵀ 0] are the singular values of x and
/// their negatives, of the eigenvectors [u; v] / sqrt(2).
std::vector<Array> svd_of_square(const Array& x) {
  const std::int64_t n = x.shape().back();
  Array zero = zeros_like(x);
  Array whole = concatenate({concatenate({zero, x}, -1), concatenate({transposed(x), zero}, -1)}, -2);
  std::vector<Array> pair = eigen(whole);
  // The upper half of the eigenvalues, falling.
  Shape starts(x.shape().size(), 0), limits = whole.shape();
  starts.back() = n;
  auto part = [&](std::int64_t from_row) {
    starts[starts.size() - 2] = from_row;
    limits[limits.size() - 2] = from_row + n;
    return orthonormal(reversed(lax::slice(pair[0], starts, limits)) * std::sqrt(2.0));
  };
  const Array values = reversed(pair[1][{ellipsis, slice(n, none)}]);
  Array u = part(0), v = part(n);
  return {u, maximum(values, 0.0), transposed(v)};
}

std::vector<Array> svd_of(const Array& x) {
  const std::int64_t m = rows(x.shape()), n = x.shape().back();
  if (m < n) {
    std::vector<Array> other = svd_of(transposed(x));
    return {transposed(other[2]), other[1], transposed(other[0])};
  }
  if (m == n) return svd_of_square(x);
  std::vector<Array> reduced = lax::qr(x);
  std::vector<Array> inner = svd_of_square(reduced[1]);
  return {matmul(reduced[0], inner[0]), inner[1], inner[2]};
}

Array diagonal_of(const Array& x) { return sum(x * identity_like(x), -1); }

}  // namespace

Array cholesky(const Operand& x) {
  CallSiteScope here(x.site());
  check("cholesky", x, true);
  return run("cholesky", {x.as_array()},
             [](Tracers t) { return std::vector<Array>{lax::cholesky(symmetrized(t[0]))}; })[0];
}

Array triangular_solve(const Operand& a, const Operand& b, TriangularOptions options) {
  CallSiteScope here(a.site());
  check("triangular_solve", a, true);
  check("triangular_solve", b, false);
  return run(
      "triangular_solve", {a.as_array(), b.as_array()},
      [&](Tracers t) {
        auto [left, right] = with_common_batch("linalg::triangular_solve", t[0], t[1]);
        return std::vector<Array>{solved(
            left, right, {options.left_side, options.lower, options.transpose_a, options.unit_diagonal})};
      },
      fmt::format("{} {} {} {}", options.left_side, options.lower, options.transpose_a,
                  options.unit_diagonal))[0];
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
          std::vector<Array> all = lax::qr(t[0]);
          return std::vector<Array>{all[0], all[1]};
        }
        // Columns of zeros need no reflection, and q has a column for each.
        std::vector<std::pair<std::int64_t, std::int64_t>> widths(t[0].shape().size());
        widths.back().second = m - n;
        std::vector<Array> all = lax::qr(pad(t[0], widths));
        return std::vector<Array>{all[0], lax::slice(all[1], Shape(t[0].shape().size(), 0), t[0].shape())};
      },
      complete ? "complete" : "reduced");
  return {parts[0], parts[1]};
}

Eigh eigh(const Operand& x) {
  CallSiteScope here(x.site());
  check("eigh", x, true);
  std::vector<Array> parts = run("eigh", {x.as_array()}, [](Tracers t) { return eigen(symmetrized(t[0])); });
  return {parts[1], parts[0]};
}

Array eigvalsh(const Operand& x) { return eigh(x).eigenvalues; }

SVD svd(const Operand& x) {
  CallSiteScope here(x.site());
  check("svd", x, false);
  std::vector<Array> parts = run("svd", {x.as_array()}, [](Tracers t) { return svd_of(t[0]); });
  return {parts[0], parts[1], parts[2]};
}

Array svdvals(const Operand& x) { return svd(x).s; }

Array solve(const Operand& a, const Operand& b) {
  CallSiteScope here(a.site());
  check("solve", a, true);
  const bool vector = b.shape().size() == 1;
  const std::int64_t size = b.shape().empty() ? -1 : vector ? b.shape()[0] : rows(b.shape());
  if (size != a.shape().back()) {
    fail<ShapeError>(
        "[linalg::solve] {} and {} do not fit{}; expected of the second as many rows as the first has "
        "columns",
        to_string(a.aval()), to_string(b.aval()), ops::at());
  }
  return run("solve", {a.as_array(), b.as_array()}, [&](Tracers t) {
    Array right = vector ? expand_dims(t[1], 1) : t[1];
    auto [left, spread] = with_common_batch("linalg::solve", t[0], right);
    Array y = solve_matrices(left, spread);
    return std::vector<Array>{vector ? squeeze(y, -1) : y};
  })[0];
}

Array inv(const Operand& x) {
  CallSiteScope here(x.site());
  check("inv", x, true);
  return run("inv", {x.as_array()},
             [](Tracers t) { return std::vector<Array>{solve_matrices(t[0], identity_like(t[0]))}; })[0];
}

Array pinv(const Operand& x, std::optional<double> rcond) {
  CallSiteScope here(x.site());
  check("pinv", x, false);
  return run(
      "pinv", {x.as_array()},
      [&](Tracers t) {
        const auto larger = static_cast<double>(std::max(rows(t[0].shape()), t[0].shape().back()));
        std::vector<Array> parts = svd_of(t[0]);
        if (parts[1].size() == 0)
          return std::vector<Array>{matmul(transposed(parts[2]), transposed(parts[0]))};
        Array cutoff = rcond.value_or(10 * larger * epsilon(t[0].dtype())) *
                       max(parts[1], {.axis = -1, .keepdims = true});
        Array kept = parts[1] > cutoff;
        Array inverse = where(kept, 1.0 / where(kept, parts[1], 1.0), 0.0);
        return std::vector<Array>{
            matmul(transposed(parts[2]) * expand_dims(inverse, -2), transposed(parts[0]))};
      },
      rcond ? fmt::format("{}", *rcond) : "")[0];
}

Array det(const Operand& x) {
  CallSiteScope here(x.site());
  check("det", x, true);
  return run("det", {x.as_array()}, [](Tracers t) {
    std::vector<Array> parts = lax::qr(t[0]);
    return std::vector<Array>{prod(diagonal_of(parts[1]), -1) * parts[2]};
  })[0];
}

std::pair<Array, Array> slogdet(const Operand& x) {
  CallSiteScope here(x.site());
  check("slogdet", x, true);
  std::vector<Array> parts = run("slogdet", {x.as_array()}, [](Tracers t) {
    std::vector<Array> parts = lax::qr(t[0]);
    Array diagonal = diagonal_of(parts[1]);
    return std::vector<Array>{prod(sign(diagonal), -1) * parts[2], sum(log(abs(diagonal)), -1)};
  });
  return {parts[0], parts[1]};
}

Array matrix_rank(const Operand& x) {
  CallSiteScope here(x.site());
  check("matrix_rank", x, false);
  return run("matrix_rank", {x.as_array()}, [](Tracers t) {
    const auto larger = static_cast<double>(std::max(rows(t[0].shape()), t[0].shape().back()));
    Array s = svd_of(t[0])[1];
    Array cutoff = larger * epsilon(s.dtype()) * max(s, {.axis = -1, .keepdims = true});
    return std::vector<Array>{sum(astype(s > cutoff, DType::kI32), -1)};
  })[0];
}

Array matrix_power(const Operand& x, std::int64_t n) {
  CallSiteScope here(x.site());
  check("matrix_power", x, true);
  return run(
      "matrix_power", {x.as_array()},
      [n](Tracers t) {
        Array base = n < 0 ? inv(t[0]) : t[0], result = identity_like(base);
        for (std::int64_t left = n < 0 ? -n : n; left > 0; left >>= 1) {
          if (left & 1) result = matmul(result, base);
          if (left > 1) base = matmul(base, base);
        }
        return std::vector<Array>{result};
      },
      fmt::format("{}", n))[0];
}

Array norm(const Operand& x, NormOptions options) {
  CallSiteScope here(x.site());
  const double ord = options.ord.value_or(2);
  std::string key =
      fmt::format("{} {} {}", ord, options.axis ? fmt::format("{}", *options.axis) : "all", options.keepdims);
  return ops::run("linalg::norm", key, {x.as_array()}, [&](Tracers t) {
    const ElementType type = to_inexact({t[0].dtype(), t[0].aval().weak_type});
    Array y = ops::convert(t[0], type);
    const ReduceOptions over{options.axis ? Axes(*options.axis) : Axes(), options.keepdims};
    if (ord == 2) return sqrt(sum(square(abs(y)), over));
    if (ord > 0 && std::isinf(ord) && y.size() == 0) return sum(abs(y), over);
    if (std::isinf(ord)) return ord > 0 ? max(abs(y), over) : min(abs(y), over);
    if (ord == 0) return sum(astype(y != 0, y.dtype()), over);
    if (ord == 1) return sum(abs(y), over);
    return power(sum(power(abs(y), ord), over), 1 / ord);
  });
}

}  // namespace lockstep::linalg
