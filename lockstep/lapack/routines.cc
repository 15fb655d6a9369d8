// SPDX-License-Identifier: Apache-2.0
// The routines on real matrices. Operands are row-major and LAPACK's matrices column-major, so LAPACK sees
// the transposes.

#include <algorithm>
#include <complex>
#include <cstring>
#include <limits>
#include <utility>

#include "lockstep/lapack/call.h"

namespace lockstep::lapack {
namespace {

/// Writes the transpose of a to b; both are row-major, a is rows x columns.
template <class T>
void transpose(const Library& library, const T* a, std::int64_t rows, std::int64_t columns, T* b) {
  if (rows == 0 || columns == 0) return;
  const Int m = size_of_matrix(rows), n = size_of_matrix(columns);
  const T one = 1;
  library.of<T>().omatcopy("R", "T", &m, &n, &one, a, &n, b, &m, 1, 1);
}

template <class T>
void fill_nan(T* x, std::int64_t count) {
  std::fill_n(x, count, std::numeric_limits<T>::quiet_NaN());
}

Int at_least_one(Int n) { return std::max<Int>(n, 1); }

/// Calls `routine`, which takes work and its length, for the length that it wants.
template <class T, class Routine>
Int wanted_work(Routine routine) {
  T size = 0;
  routine(&size, -1);
  return at_least_one(static_cast<Int>(size));
}

}  // namespace

template <class T>
void cholesky(const Call& call) {
  const std::int64_t n = call.operands[0].rows();
  const Int size = size_of_matrix(n), ld = at_least_one(size);
  for (std::int64_t i = call.first; i < call.end; ++i) {
    const T* x = call.operands[0].at<T>(i, n * n);
    T* l = call.results[0].at<T>(i, n * n);
    for (std::int64_t r = 0; r < n; ++r) {
      std::copy_n(x + r * n, r + 1, l + r * n);
      std::fill_n(l + r * n + r + 1, n - r - 1, T(0));
    }
    Int info = 0;
    call.library.of<T>().potrf("U", &size, l, &ld, &info, 1);
    if (info != 0) fill_nan(l, n * n);
  }
}

template <class T>
void triangular_solve(const Call& call) {
  const bool left = call.flag("left_side"), lower = call.flag("lower"), transposed = call.flag("transpose_a"),
             unit = call.flag("unit_diagonal");
  const std::int64_t k = call.operands[0].rows(), rows = call.operands[1].rows(),
                     columns = call.operands[1].columns();
  const Int size = size_of_matrix(k), m = size_of_matrix(columns), n = size_of_matrix(rows);
  const T one = 1;
  for (std::int64_t i = call.first; i < call.end; ++i) {
    T* y = call.results[0].at<T>(i, rows * columns);
    std::copy_n(call.operands[1].at<T>(i, rows * columns), rows * columns, y);
    if (rows == 0 || columns == 0) continue;
    call.library.of<T>().trsm(left ? "R" : "L", lower ? "U" : "L", transposed ? "T" : "N", unit ? "U" : "N",
                              &m, &n, &one, call.operands[0].at<T>(i, k * k), &size, y, &m, 1, 1, 1, 1);
  }
}

/// The transpose's decomposition into a lower triangle and orthonormal rows is the one that is wanted. A
/// large matrix is transposed and back instead: OpenBLAS takes two thirds of the time for columns.
template <class T>
void qr(const Call& call) {
  constexpr std::int64_t kLarge = 128;
  const auto& f = call.library.of<T>();
  const std::int64_t m = call.operands[0].rows(), n = call.operands[0].columns(), k = std::min(m, n);
  const bool by_columns = k >= kLarge, is_q_wanted = call.flag("q");
  const Int rows = size_of_matrix(by_columns ? m : n), columns = size_of_matrix(by_columns ? n : m),
            inner = std::min(rows, columns), ld = at_least_one(rows);
  auto a = scratch<T>(m * n), back = scratch<T>(by_columns ? m * n : 0), tau = scratch<T>(k);
  Int info = 0;
  const auto factor = [&](T* work, Int length) {
    (by_columns ? f.geqrf : f.gelqf)(&rows, &columns, a.get(), &ld, tau.get(), work, &length, &info);
  };
  const auto unfold = [&](T* work, Int length) {
    (by_columns ? f.orgqr : f.orglq)(by_columns ? &rows : &inner, by_columns ? &inner : &columns, &inner,
                                     a.get(), &ld, tau.get(), work, &length, &info);
  };
  const Int length = std::max(wanted_work<T>(factor), wanted_work<T>(unfold));
  auto work = scratch<T>(length);
  for (std::int64_t i = call.first; i < call.end; ++i) {
    const T* x = call.operands[0].at<T>(i, m * n);
    T *q = call.results[0].at<T>(i, m * k), *r = call.results[1].at<T>(i, k * n),
      &sign = *call.results[2].at<T>(i, 1);
    sign = 1;
    if (k == 0) continue;
    if (by_columns)
      transpose(call.library, x, m, n, a.get());
    else
      std::copy_n(x, m * n, a.get());
    factor(work.get(), length);
    if (by_columns) transpose(call.library, a.get(), n, m, back.get());
    const T* triangle = by_columns ? back.get() : a.get();
    for (std::int64_t row = 0; row < k; ++row) {
      std::fill_n(r + row * n, row, T(0));
      std::copy_n(triangle + row * n + row, n - row, r + row * n + row);
      if (tau[static_cast<std::size_t>(row)] != 0) sign = -sign;
    }
    if (!is_q_wanted) continue;
    unfold(work.get(), length);
    if (by_columns) {
      transpose(call.library, a.get(), k, m, q);
    } else {
      for (std::int64_t row = 0; row < m; ++row) std::copy_n(a.get() + row * n, k, q + row * k);
    }
  }
}

template <class T>
void geqrf(const Call& call) {
  const std::int64_t m = call.operands[0].rows(), n = call.operands[0].columns(), k = std::min(m, n);
  const Int rows = size_of_matrix(m), columns = size_of_matrix(n);
  if (k == 0) return;
  auto a = scratch<T>(m * n);
  T* taus = nullptr;
  Int info = 0;
  const auto factor = [&](T* work, Int length) {
    call.library.of<T>().geqrf(&rows, &columns, a.get(), &rows, taus, work, &length, &info);
  };
  const Int length = wanted_work<T>(factor);
  auto work = scratch<T>(length);
  for (std::int64_t i = call.first; i < call.end; ++i) {
    taus = call.results[1].at<T>(i, k);
    transpose(call.library, call.operands[0].at<T>(i, m * n), m, n, a.get());
    factor(work.get(), length);
    transpose(call.library, a.get(), n, m, call.results[0].at<T>(i, m * n));
  }
}

template <class T>
void householder_product(const Call& call) {
  const std::int64_t m = call.operands[0].rows(), n = call.operands[0].columns(),
                     k = call.operands[1].columns();
  const Int rows = size_of_matrix(m), columns = size_of_matrix(n), inner = size_of_matrix(k);
  if (m == 0 || n == 0) return;
  auto a = scratch<T>(m * n);
  const T* taus = nullptr;
  Int info = 0;
  const auto unfold = [&](T* work, Int length) {
    call.library.of<T>().orgqr(&rows, &columns, &inner, a.get(), &rows, taus, work, &length, &info);
  };
  const Int length = wanted_work<T>(unfold);
  auto work = scratch<T>(length);
  for (std::int64_t i = call.first; i < call.end; ++i) {
    taus = call.operands[1].at<T>(i, k);
    transpose(call.library, call.operands[0].at<T>(i, m * n), m, n, a.get());
    unfold(work.get(), length);
    transpose(call.library, a.get(), n, m, call.results[0].at<T>(i, m * n));
  }
}

template <class T>
void lu(const Call& call) {
  const std::int64_t m = call.operands[0].rows(), n = call.operands[0].columns(), k = std::min(m, n);
  const Int rows = size_of_matrix(m), columns = size_of_matrix(n), ld = at_least_one(rows);
  auto a = scratch<T>(m * n);
  for (std::int64_t i = call.first; i < call.end; ++i) {
    Int *pivots = call.results[1].at<Int>(i, k), *permutation = call.results[2].at<Int>(i, m);
    for (Int r = 0; r < rows; ++r) permutation[r] = r;
    if (k == 0) continue;
    transpose(call.library, call.operands[0].at<T>(i, m * n), m, n, a.get());
    Int info = 0;
    call.library.of<T>().getrf(&rows, &columns, a.get(), &ld, pivots, &info);
    transpose(call.library, a.get(), n, m, call.results[0].at<T>(i, m * n));
    for (std::int64_t r = 0; r < k; ++r) std::swap(permutation[r], permutation[--pivots[r]]);
  }
}

template <class T>
void eigh(const Call& call) {
  const std::int64_t n = call.operands[0].rows();
  const Int size = size_of_matrix(n);
  if (n == 0) return;
  auto a = scratch<T>(n * n);
  T length = 0;
  Int info = 0, integers = 0, query = -1;
  call.library.of<T>().syevd("V", "L", &size, a.get(), &size, nullptr, &length, &query, &integers, &query,
                             &info, 1, 1);
  // In f32 the requested length is rounded; this is the minimum that the routine needs.
  const Int work_length = std::max<Int>(static_cast<Int>(length), 1 + 6 * size + 2 * size * size),
            integer_length = std::max<Int>(integers, 3 + 5 * size);
  auto work = scratch<T>(work_length);
  auto integer_work = scratch<Int>(integer_length);
  for (std::int64_t i = call.first; i < call.end; ++i) {
    T *v = call.results[0].at<T>(i, n * n), *w = call.results[1].at<T>(i, n);
    transpose(call.library, call.operands[0].at<T>(i, n * n), n, n, a.get());
    call.library.of<T>().syevd("V", "L", &size, a.get(), &size, w, work.get(), &work_length,
                               integer_work.get(), &integer_length, &info, 1, 1);
    transpose(call.library, a.get(), n, n, v);
    if (info == 0) continue;
    fill_nan(v, n * n);
    fill_nan(w, n);
  }
}

template <class T>
void svd(const Call& call) {
  const bool vectors = call.flag("vectors");
  const std::int64_t m = call.operands[0].rows(), n = call.operands[0].columns(), k = std::min(m, n);
  if (k == 0) return;
  const Int rows = size_of_matrix(m), columns = size_of_matrix(n), inner = std::min(rows, columns);
  auto a = scratch<T>(m * n), u = scratch<T>(vectors ? m * k : 1), vt = scratch<T>(vectors ? k * n : 1);
  auto integers = scratch<Int>(8 * k);
  const Int ldvt = vectors ? inner : 1, ldu = vectors ? rows : 1;
  T* s = nullptr;
  Int info = 0;
  const auto decompose = [&](T* work, Int length) {
    call.library.of<T>().gesdd(vectors ? "S" : "N", &rows, &columns, a.get(), &rows, s, u.get(), &ldu,
                               vt.get(), &ldvt, work, &length, integers.get(), &info, 1);
  };
  // Rounded to f32 the wanted length may be too short by a little.
  const Int wanted = wanted_work<T>(decompose), length = wanted + wanted / 1024 + 8;
  auto work = scratch<T>(length);
  for (std::int64_t i = call.first; i < call.end; ++i) {
    s = call.results[vectors ? 1 : 0].at<T>(i, k);
    transpose(call.library, call.operands[0].at<T>(i, m * n), m, n, a.get());
    decompose(work.get(), length);
    if (info != 0) fill_nan(s, k);
    if (!vectors) continue;
    T *left = call.results[0].at<T>(i, m * k), *right = call.results[2].at<T>(i, k * n);
    transpose(call.library, u.get(), k, m, left);
    transpose(call.library, vt.get(), n, k, right);
    if (info == 0) continue;
    fill_nan(left, m * k);
    fill_nan(right, k * n);
  }
}

template <class T>
void eig(const Call& call) {
  using C = std::complex<T>;
  const bool vectors = call.flag("vectors");
  const std::int64_t n = call.operands[0].rows();
  if (n == 0) return;
  const Int size = size_of_matrix(n), one = 1;
  auto a = scratch<T>(n * n), real = scratch<T>(n), imag = scratch<T>(n), v = scratch<T>(vectors ? n * n : 1);
  Int info = 0;
  const auto decompose = [&](T* work, Int length) {
    call.library.of<T>().geev("N", vectors ? "V" : "N", &size, a.get(), &size, real.get(), imag.get(),
                              nullptr, &one, v.get(), &size, work, &length, &info, 1, 1);
  };
  const Int wanted = wanted_work<T>(decompose), length = wanted + wanted / 1024 + 8;
  auto work = scratch<T>(length);
  const C nan(std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::quiet_NaN());
  for (std::int64_t i = call.first; i < call.end; ++i) {
    transpose(call.library, call.operands[0].at<T>(i, n * n), n, n, a.get());
    decompose(work.get(), length);
    C* w = call.results[0].at<C>(i, n);
    for (std::int64_t k = 0; k < n; ++k) w[k] = info == 0 ? C(real[k], imag[k]) : nan;
    if (!vectors) continue;
    C* out = call.results[1].at<C>(i, n * n);
    for (std::int64_t k = 0; k < n; ++k) {
      // For a conjugate pair, the real and imaginary parts of the first vector are in two columns.
      const bool pair = imag[k] > 0 && k + 1 < n;
      const T *column = v.get() + k * n, *other = column + n;
      for (std::int64_t r = 0; r < n; ++r) {
        out[r * n + k] = info != 0 ? nan : pair ? C(column[r], other[r]) : C(column[r], 0);
        if (pair) out[r * n + k + 1] = info != 0 ? nan : C(column[r], -other[r]);
      }
      if (pair) ++k;
    }
  }
}

template <class T>
void schur(const Call& call) {
  const std::int64_t n = call.operands[0].rows();
  if (n == 0) return;
  const Int size = size_of_matrix(n);
  auto a = scratch<T>(n * n), z = scratch<T>(n * n), real = scratch<T>(n), imag = scratch<T>(n);
  Int info = 0, selected = 0;
  const auto decompose = [&](T* work, Int length) {
    call.library.of<T>().gees("V", "N", nullptr, &size, a.get(), &size, &selected, real.get(), imag.get(),
                              z.get(), &size, work, &length, nullptr, &info, 1, 1);
  };
  const Int wanted = wanted_work<T>(decompose), length = wanted + wanted / 1024 + 8;
  auto work = scratch<T>(length);
  for (std::int64_t i = call.first; i < call.end; ++i) {
    T *triangle = call.results[0].at<T>(i, n * n), *vectors = call.results[1].at<T>(i, n * n);
    transpose(call.library, call.operands[0].at<T>(i, n * n), n, n, a.get());
    decompose(work.get(), length);
    transpose(call.library, a.get(), n, n, triangle);
    transpose(call.library, z.get(), n, n, vectors);
    if (info == 0) continue;
    fill_nan(triangle, n * n);
    fill_nan(vectors, n * n);
  }
}

#define LOCKSTEP_INSTANTIATE(routine)        \
  template void routine<float>(const Call&); \
  template void routine<double>(const Call&);
LOCKSTEP_INSTANTIATE(cholesky)
LOCKSTEP_INSTANTIATE(triangular_solve)
LOCKSTEP_INSTANTIATE(qr)
LOCKSTEP_INSTANTIATE(geqrf)
LOCKSTEP_INSTANTIATE(householder_product)
LOCKSTEP_INSTANTIATE(lu)
LOCKSTEP_INSTANTIATE(eigh)
LOCKSTEP_INSTANTIATE(svd)
LOCKSTEP_INSTANTIATE(schur)
LOCKSTEP_INSTANTIATE(eig)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::lapack
