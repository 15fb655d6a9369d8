// SPDX-License-Identifier: Apache-2.0
// The routines on real matrices whose results are complex triangles.

#include <algorithm>
#include <complex>
#include <limits>
#include <vector>

#include "lockstep/lapack/call.h"

namespace lockstep::lapack {
namespace {

/// x = z t z^H with an upper triangle t; all column by column.
template <class T>
class Schur {
 public:
  using C = std::complex<T>;

  Schur(const Library& library, std::int64_t n)
      : gees_(library.complex_of<T>().gees),
        n_(n),
        size_(size_of_matrix(n)),
        t_(scratch<C>(n * n)),
        z_(scratch<C>(n * n)),
        w_(scratch<C>(n)),
        real_(scratch<T>(n)) {
    C wanted = 0;
    call(&wanted, -1);
    length_ = static_cast<Int>(wanted.real()) + static_cast<Int>(wanted.real()) / 1024 + 8;
    work_ = scratch<C>(length_);
  }

  /// For a real row-major matrix. False if the routine does not converge.
  template <class Real>
  bool decompose(const Real* x) {
    for (std::int64_t row = 0; row < n_; ++row) {
      for (std::int64_t column = 0; column < n_; ++column)
        t_[static_cast<std::size_t>(column * n_ + row)] = static_cast<T>(x[row * n_ + column]);
    }
    return call(work_.get(), length_) == 0;
  }

  const C* triangle() const { return t_.get(); }
  const C* vectors() const { return z_.get(); }

 private:
  Int call(C* work, Int length) {
    Int info = 0, selected = 0;
    gees_("V", "N", nullptr, &size_, t_.get(), &size_, &selected, w_.get(), z_.get(), &size_, work, &length,
          real_.get(), nullptr, &info, 1, 1);
    return info;
  }

  decltype(ComplexRoutines<T>::gees) gees_;
  std::int64_t n_;
  Int size_, length_ = 0;
  std::unique_ptr<C[]> t_, z_, w_, work_;
  std::unique_ptr<T[]> real_;
};

template <class T>
void fill_complex_nan(std::complex<T>* out, std::int64_t count) {
  constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  std::fill_n(out, count, std::complex<T>(kNan, kNan));
}

/// Converts a column-major matrix to row-major.
template <class C, class Result>
void write_rows(const C* columns, std::int64_t n, Result* out) {
  for (std::int64_t row = 0; row < n; ++row) {
    for (std::int64_t column = 0; column < n; ++column)
      out[row * n + column] = static_cast<Result>(columns[column * n + row]);
  }
}

/// The square root of an upper triangle, column by column: Björck and Hammarling, "A Schur method for the
/// square root of a matrix" (1983).
void root_of_triangle(const std::complex<double>* t, std::int64_t n, std::complex<double>* root) {
  using C = std::complex<double>;
  std::fill_n(root, n * n, C(0));
  std::vector<C> rows(static_cast<std::size_t>(n * n));  // the same, row by row
  for (std::int64_t j = 0; j < n; ++j) {
    C* column = root + j * n;
    column[j] = std::sqrt(t[j * n + j]);
    rows[static_cast<std::size_t>(j * n + j)] = column[j];
    for (std::int64_t i = j - 1; i >= 0; --i) {
      const C* row = rows.data() + i * n;
      C rest = t[j * n + i];
      for (std::int64_t k = i + 1; k < j; ++k) rest -= row[k] * column[k];
      column[i] = rest == C(0) ? C(0) : rest / (row[i] + column[j]);
      rows[static_cast<std::size_t>(i * n + j)] = column[i];
    }
  }
}

}  // namespace

template <class T>
void complex_schur(const Call& call) {
  using Result = std::complex<T>;
  const std::int64_t n = call.operands[0].rows();
  if (n == 0) return;
  Schur<T> schur(call.library, n);
  for (std::int64_t i = call.first; i < call.end; ++i) {
    Result *t = call.results[0].at<Result>(i, n * n), *z = call.results[1].at<Result>(i, n * n);
    if (schur.decompose(call.operands[0].at<T>(i, n * n))) {
      write_rows(schur.triangle(), n, t);
      write_rows(schur.vectors(), n, z);
    } else {
      fill_complex_nan(t, n * n);
      fill_complex_nan(z, n * n);
    }
  }
}

/// In f64, for the digits that a badly conditioned matrix of eigenvectors takes.
template <class T>
void sqrtm(const Call& call) {
  using C = std::complex<double>;
  using Result = std::complex<T>;
  const std::int64_t n = call.operands[0].rows();
  if (n == 0) return;
  const Int size = size_of_matrix(n);
  const C one = 1, zero = 0;
  const auto gemm = call.library.complex_of<double>().gemm;
  Schur<double> schur(call.library, n);
  auto root = scratch<C>(n * n), product = scratch<C>(n * n);
  for (std::int64_t i = call.first; i < call.end; ++i) {
    Result* out = call.results[0].at<Result>(i, n * n);
    if (!schur.decompose(call.operands[0].at<T>(i, n * n))) {
      fill_complex_nan(out, n * n);
      continue;
    }
    root_of_triangle(schur.triangle(), n, root.get());
    gemm("N", "N", &size, &size, &size, &one, schur.vectors(), &size, root.get(), &size, &zero, product.get(),
         &size, 1, 1);
    gemm("N", "C", &size, &size, &size, &one, product.get(), &size, schur.vectors(), &size, &zero, root.get(),
         &size, 1, 1);
    write_rows(root.get(), n, out);
  }
}

template void complex_schur<float>(const Call&);
template void complex_schur<double>(const Call&);
template void sqrtm<float>(const Call&);
template void sqrtm<double>(const Call&);

}  // namespace lockstep::lapack
