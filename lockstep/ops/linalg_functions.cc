// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/arithmetic.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/complex.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/indexing.h"
#include "lockstep/ops/linalg.h"
#include "lockstep/ops/linalg_internal.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/nested_call.h"
#include "lockstep/ops/shape.h"
#include "lockstep/ops/sorting.h"
#include "lockstep/program/primitives/decompositions.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::linalg {

using ops::Tracers;

namespace internal {

Array solve_matrices(const Array& a, const Array& b) {
  const auto solved = [](const std::vector<Array>& parts, const Array& right) {
    return ir::lax::lu_solve(parts[0], parts[2], right);
  };
  return internal::with_derivative(
      {a, b},
      [&](const std::vector<Array>& x) -> std::vector<Array> { return {solved(ir::lax::lu(x[0]), x[1])}; },
      [&](const std::vector<Array>& x, const std::vector<Array>& t) {
        const std::vector<Array> parts = ir::lax::lu(x[0]);
        const Array y = solved(parts, x[1]);
        return std::pair(std::vector<Array>{y}, std::vector<Array>{solved(parts, t[1] - matmul(t[0], y))});
      })[0];
}

}  // namespace internal

namespace {

using namespace internal;

/// The system of the real and imaginary parts, which has twice as many rows.
Array solve_complex(const Operand& a, const Operand& b) {
  const Array re = real(a), im = imag(a);
  check("solve", re, true);
  check_system("solve", a, b);
  const bool vector = b.shape().size() == 1;
  const auto above = [](const Array& x, const Array& y) { return concatenate({x, y}, -2); };
  const auto beside = [](const Array& x, const Array& y) { return concatenate({x, y}, -1); };
  const auto columns = [&](const Array& x) { return vector ? expand_dims(x, 1) : x; };
  const Array y = solve(above(beside(re, -im), beside(im, re)), above(columns(real(b)), columns(imag(b))));
  const std::int64_t n = re.shape().back();
  const Array both = complex(y[{ellipsis, lockstep::slice(0, n), lockstep::slice()}],
                             y[{ellipsis, lockstep::slice(n, 2 * n), lockstep::slice()}]);
  return vector ? squeeze(both, -1) : both;
}

/// The sign of the permutation: 1 for an even number of exchanges, else -1. A row exchanged with itself does
/// not count.
Array sign_of(const Array& pivots, DType dtype) {
  const Array own = arange(pivots.shape().back(), DType::kI32);
  const Array changes = sum(astype(pivots != own, DType::kI32), -1);
  return astype(1 - 2 * (changes % 2), dtype);
}

Array element(const Array& x, std::int64_t row, std::int64_t column) { return x[{ellipsis, row, column}]; }

Array small_det(const Array& x) {
  const std::int64_t n = x.shape().back();
  const auto at = [&](std::int64_t row, std::int64_t column) { return element(x, row, column); };
  if (n == 0) return ones(Shape(x.shape().begin(), x.shape().end() - 2), x.dtype());
  if (n == 1) return at(0, 0);
  if (n == 2) return at(0, 0) * at(1, 1) - at(0, 1) * at(1, 0);
  return at(0, 0) * at(1, 1) * at(2, 2) + at(0, 1) * at(1, 2) * at(2, 0) + at(0, 2) * at(1, 0) * at(2, 1) -
         at(0, 2) * at(1, 1) * at(2, 0) - at(0, 0) * at(1, 2) * at(2, 1) - at(0, 1) * at(1, 0) * at(2, 2);
}

Array det_by_lu(const Array& x) {
  const std::vector<Array> parts = ir::lax::lu(x);
  return prod(diagonal_of(parts[0]), -1) * sign_of(parts[1], x.dtype());
}

/// det(x) and the trace of adj(x) dx, which is finite for matrices of rank n - 1, too: the last element of u,
/// which is 0 there, is left out of the division. 0 for those of lower rank.
std::pair<Array, Array> det_and_tangent(const Array& x, const Array& dx) {
  const std::int64_t n = x.shape().back();
  const std::vector<Array> parts = ir::lax::lu(x);
  const Array products = cumprod(diagonal_of(parts[0]), -1) * expand_dims(sign_of(parts[1], x.dtype()), -1);
  const Array det = products[{ellipsis, n - 1}], all_but_one = products[{ellipsis, n - 2}];
  const Array row = expand_dims(arange(n, DType::kI32), -1), column = arange(n, DType::kI32);
  const Array last = (row == n - 1) & (column == n - 1);
  const Array lu = where(last, expand_dims(expand_dims(1.0 / all_but_one, -1), -1), parts[0]);
  Shape column_shape = x.shape();
  column_shape.back() = 1;
  const Array probe = ir::lax::triangular_solve(
      lu, ones(column_shape, x.dtype()), lockstep::ir::TriangularSolveParams{true, false, false, false});
  const Array lost = ops::broadcast(
      expand_dims(expand_dims(lockstep::any(logical_not(isfinite(squeeze(probe, -1))), -1), -1), -1),
      x.shape());
  Array y = ir::lax::permuted_rows(where(lost, 0.0, dx), parts[2]);
  y = ir::lax::triangular_solve(lu, y, lockstep::ir::TriangularSolveParams{true, true, false, true});
  y = where(row == n - 1, y, y * expand_dims(expand_dims(det, -1), -1));
  y = ir::lax::triangular_solve(lu, y, lockstep::ir::TriangularSolveParams{true, false, false, false});
  return {det, sum(diagonal_of(where(lost, 0.0, y)), -1)};
}

/// In the order of the rows that the pivots, i32[…, k], make of m rows.
Array permutation_of(const Array& pivots, std::int64_t m) {
  Shape shape = pivots.shape();
  const std::int64_t k = shape.back();
  shape.back() = m;
  const Array places = ops::broadcast(arange(m, DType::kI32), shape);
  const auto step = [&](const std::vector<Array>& order, const std::vector<Array>& elements) {
    const Array i = expand_dims(elements[0], -1), j = elements[1];
    const Array &now = order[0], is_i = places == i, is_j = places == j;
    const auto of = [&](const Array& where_) {
      return sum(where(where_, now, 0), {.axis = -1, .keepdims = true});
    };
    return std::vector<Array>{where(is_j, of(is_i), where(is_i, of(is_j), now))};
  };
  return lockstep::internal::scan_of_arrays("linalg::lu_solve", {places},
                                            {moveaxis(pivots, -1, 0), arange(k, DType::kI32)}, k, step)[0];
}

/// The odd and the even part of Padé's approximation of the exponential, of order 7 or 13.
std::pair<Array, Array> pade(const Array& x, std::span<const double> b) {
  const auto times = [](double number, const Array& y) { return y * number; };
  const Array identity = identity_like(x), x2 = matmul(x, x), x4 = matmul(x2, x2), x6 = matmul(x4, x2);
  Array odd = times(b[7], x6) + times(b[5], x4) + times(b[3], x2) + times(b[1], identity),
        even = times(b[6], x6) + times(b[4], x4) + times(b[2], x2) + times(b[0], identity);
  if (b.size() > 8) {
    odd = odd + matmul(x6, times(b[13], x6) + times(b[11], x4) + times(b[9], x2));
    even = even + matmul(x6, times(b[12], x6) + times(b[10], x4) + times(b[8], x2));
  }
  return {matmul(x, odd), even};
}

Array exponential(const Array& x, int max_squarings) {
  static constexpr std::array<double, 8> kOrder7 = {17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1};
  static constexpr std::array<double, 14> kOrder13 = {64764752532480000.,
                                                      32382376266240000.,
                                                      7771770303897600.,
                                                      1187353796428800.,
                                                      129060195264000.,
                                                      10559470521600.,
                                                      670442572800.,
                                                      33522128640.,
                                                      1323241920.,
                                                      40840800.,
                                                      960960.,
                                                      16380.,
                                                      182.,
                                                      1.};
  if (x.size() == 0) return x;
  const bool wide = x.dtype() == DType::kF64;
  const double largest = wide ? 5.371920351148152 : 3.925724783138660;
  const Array size = max(sum(abs(stop_gradient(x)), -2), {.axis = -1, .keepdims = true});
  const Array squarings = expand_dims(maximum(ceil(log2(size / largest)), 0.0), -1);
  const auto [odd, even] = pade(x * exp2(-squarings), wide ? std::span<const double>(kOrder13) : kOrder7);
  const Array first = solve_matrices(even - odd, even + odd);
  const auto step = [&](const std::vector<Array>& carry, const std::vector<Array>& i) {
    const Array more = i[0] < squarings;
    return lockstep::internal::cond_of_arrays(lockstep::any(more), carry, [&]() -> std::vector<Array> {
      return {where(more, matmul(carry[0], carry[0]), carry[0])};
    });
  };
  const Array squared = lockstep::internal::scan_of_arrays(
      "linalg::expm", {first}, {arange(max_squarings, x.dtype())}, max_squarings, step)[0];
  return where(squarings > max_squarings, std::numeric_limits<double>::quiet_NaN(), squared);
}

/// The singular values that count, as bools.
Array counting(const Array& s, double cutoff) { return s > cutoff * max(s, {.axis = -1, .keepdims = true}); }

Array pinv_by_svd(const Array& x, double rcond) {
  const std::vector<Array> parts = ir::lax::svd(x);
  if (parts[1].size() == 0) return matmul(transposed(parts[2]), transposed(parts[0]));
  const Array kept = counting(parts[1], rcond);
  const Array inverse = where(kept, 1.0 / where(kept, parts[1], 1.0), 0.0);
  return matmul(transposed(parts[2]) * expand_dims(inverse, -2), transposed(parts[0]));
}

/// Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose
/// variables separate" (1973).
Array pinv_tangent(const Array& a, const Array& da, const Array& p) {
  const Array pt = transposed(p), dat = transposed(da);
  if (rows(a.shape()) >= a.shape().back()) {
    const Array s = matmul(matmul(p, pt), dat), t = matmul(matmul(dat, pt), p);
    return -matmul(matmul(p, da), p) + s - matmul(matmul(s, a), p) + t - matmul(matmul(p, a), t);
  }
  const Array s = matmul(p, matmul(pt, dat)), t = matmul(dat, matmul(pt, p));
  return -matmul(p, matmul(da, p)) + s - matmul(s, matmul(a, p)) + t - matmul(p, matmul(a, t));
}

}  // namespace

Array solve(const Operand& a, const Operand& b) {
  CallSiteScope here(a.site());
  if (is_complex(a.type().dtype) || is_complex(b.type().dtype)) return solve_complex(a, b);
  check("solve", a, true);
  check_system("solve", a, b);
  const bool vector = b.shape().size() == 1;
  return run("solve", {a.as_array(), b.as_array()}, [&](Tracers t) {
    Array right = vector ? expand_dims(t[1], 1) : t[1];
    auto [left, spread] = with_common_batch("linalg::solve", t[0], right);
    Array y = solve_matrices(left, spread);
    return std::vector<Array>{vector ? squeeze(y, -1) : y};
  })[0];
}

Array lu_solve(const LUFactor& factor, const Operand& b, int trans) {
  CallSiteScope here(b.site());
  check("lu_solve", factor.lu, true);
  check_system("lu_solve", factor.lu, b);
  const Shape &shape = factor.lu.shape(), &of_pivots = factor.pivots.shape();
  if (!is_integer(factor.pivots.dtype()) || of_pivots != Shape(shape.begin(), shape.end() - 1)) {
    fail<ShapeError>(
        "[linalg::lu_solve] expected the pivots of {}, one for each of its rows, got {}{}; give the pivots "
        "that linalg::lu_factor returns",
        to_string(factor.lu.aval()), to_string(factor.pivots.aval()), ops::at());
  }
  if (trans != 0 && trans != 1)
    fail("[linalg::lu_solve] expected trans of 0, or 1 for the transpose, got {}{}", trans, ops::at());
  const bool vector = b.shape().size() == 1;
  const Array operands[] = {factor.lu, factor.pivots, b.as_array()};
  return run_operation("linalg::lu_solve", fmt::format("{} {}", trans, vector), operands, [&](Tracers t) {
    const DType dtype =
        t[0].dtype() == DType::kF64 || t[2].dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
    const Array right = astype(vector ? expand_dims(t[2], 1) : t[2], dtype);
    auto [lu, spread] = with_common_batch("linalg::lu_solve", astype(t[0], dtype), right);
    const Array order = permutation_of(astype(t[1], DType::kI32), rows(t[0].shape()));
    const Array permutation = ops::broadcast(order, Shape(lu.shape().begin(), lu.shape().end() - 1));
    const Array y = ir::lax::lu_solve(lu, permutation, spread, trans == 1);
    return std::vector<Array>{vector ? squeeze(y, -1) : y};
  })[0];
}

Array inv(const Operand& x) {
  CallSiteScope here(x.site());
  if (is_complex(x.type().dtype)) return solve_complex(x, identity_like(real(x)));
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
        const double cutoff = rcond.value_or(10 * larger * finfo(t[0].dtype()).eps);
        return internal::with_derivative(
            {t[0]},
            [&](const std::vector<Array>& x) -> std::vector<Array> { return {pinv_by_svd(x[0], cutoff)}; },
            [&](const std::vector<Array>& x, const std::vector<Array>& dx) {
              const Array p = pinv_by_svd(x[0], cutoff);
              return std::pair(std::vector<Array>{p}, std::vector<Array>{pinv_tangent(x[0], dx[0], p)});
            });
      },
      rcond ? fmt::format("{}", *rcond) : "")[0];
}

LeastSquares lstsq(const Operand& a, const Operand& b, std::optional<double> rcond) {
  CallSiteScope here(a.site());
  check("lstsq", a, false);
  const std::size_t rank = b.shape().size();
  if (a.shape().size() != 2 || rank == 0 || rank > 2 || b.shape()[0] != a.shape()[0]) {
    fail<ShapeError>(
        "[linalg::lstsq] expected a matrix, and a vector or a matrix of as many rows, got {} and {}{}; use "
        "vmap for several",
        to_string(a.aval()), to_string(b.aval()), ops::at());
  }
  std::vector<Array> parts = run(
      "lstsq", {a.as_array(), b.as_array()},
      [&](Tracers t) {
        const Array right = rank == 1 ? expand_dims(t[1], 1) : t[1];
        const std::vector<Array> svd = ir::lax::svd(t[0]);
        const Array &s = svd[1], cutoff = rcond.value_or(static_cast<double>(std::max(rows(t[0].shape()),
                                                                                      t[0].shape().back())) *
                                                         finfo(t[0].dtype()).eps) *
                                          max(s, {.axis = -1, .keepdims = true});
        const Array kept = (s > 0.0) & (s >= cutoff);
        const Array inverse = where(kept, 1.0 / where(kept, s, 1.0), 0.0);
        const Array y =
            matmul(transposed(svd[2]), expand_dims(inverse, 1) * matmul(transposed(svd[0]), right));
        const Array left = sum(square(right - matmul(t[0], y)), 0);
        return std::vector<Array>{rank == 1 ? squeeze(y, 1) : y, left, sum(astype(kept, DType::kI32)), s};
      },
      fmt::format("{} {}", rank, rcond ? fmt::format("{}", *rcond) : "default"));
  return {parts[0], parts[1], parts[2], parts[3]};
}

Array det(const Operand& x) {
  CallSiteScope here(x.site());
  check("det", x, true);
  return run("det", {x.as_array()}, [](Tracers t) {
    if (t[0].shape().back() <= 3) return std::vector<Array>{small_det(t[0])};
    return internal::with_derivative(
        {t[0]}, [](const std::vector<Array>& x) -> std::vector<Array> { return {det_by_lu(x[0])}; },
        [](const std::vector<Array>& x, const std::vector<Array>& dx) {
          auto [det, tangent] = det_and_tangent(x[0], dx[0]);
          return std::pair(std::vector<Array>{det}, std::vector<Array>{tangent});
        });
  })[0];
}

std::pair<Array, Array> slogdet(const Operand& x) {
  CallSiteScope here(x.site());
  check("slogdet", x, true);
  std::vector<Array> parts = run("slogdet", {x.as_array()}, [](Tracers t) {
    const std::vector<Array> parts = ir::lax::lu(t[0]);
    const Array diagonal = diagonal_of(parts[0]);
    return std::vector<Array>{prod(sign(diagonal), -1) * sign_of(parts[1], t[0].dtype()),
                              sum(log(abs(diagonal)), -1)};
  });
  return {parts[0], parts[1]};
}

Array matrix_rank(const Operand& x) {
  CallSiteScope here(x.site());
  check("matrix_rank", x, false);
  return run("matrix_rank", {x.as_array()}, [](Tracers t) {
    const auto larger = static_cast<double>(std::max(rows(t[0].shape()), t[0].shape().back()));
    Array s = ir::lax::svd(t[0], false)[0];
    Array cutoff = larger * finfo(s.dtype()).eps * max(s, {.axis = -1, .keepdims = true});
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

Array expm(const Operand& x, int max_squarings) {
  CallSiteScope here(x.site());
  check("expm", x, true);
  return run(
      "expm", {x.as_array()}, [&](Tracers t) { return std::vector<Array>{exponential(t[0], max_squarings)}; },
      fmt::format("{}", max_squarings))[0];
}

}  // namespace lockstep::linalg
