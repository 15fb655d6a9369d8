// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/lapack/library.h"

struct XLA_FFI_CallFrame;

namespace lockstep::lapack {

/// An operand or result of a custom call: matrices in row-major order.
struct Matrices {
  void* data = nullptr;
  std::vector<std::int64_t> shape;

  std::int64_t rows() const { return shape[shape.size() - 2]; }
  std::int64_t columns() const { return shape.back(); }

  /// Matrix number i, if each has this number of elements.
  template <class T>
  T* at(std::int64_t i, std::int64_t elements) const {
    return static_cast<T*>(data) + i * elements;
  }
};

/// The arguments of a routine.
struct Call {
  const XLA_FFI_CallFrame& frame;
  const Library& library;
  std::vector<Matrices> operands, results;
  std::int64_t first, end;  ///< the numbers of the matrices that are wanted

  bool flag(std::string_view name) const;
};

/// A size as Fortran's integer. Throws Error if it is too large.
Int size_of_matrix(std::int64_t size);

/// Uninitialized memory for this number of elements; at least one.
template <class T>
std::unique_ptr<T[]> scratch(std::int64_t elements) {
  return std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(elements < 1 ? 1 : elements));
}

/// The routines, for T float or double.
template <class T>
void cholesky(const Call& call);
template <class T>
void triangular_solve(const Call& call);
template <class T>
void qr(const Call& call);
template <class T>
void geqrf(const Call& call);
template <class T>
void householder_product(const Call& call);
template <class T>
void lu(const Call& call);
template <class T>
void eigh(const Call& call);
template <class T>
void svd(const Call& call);
template <class T>
void eig(const Call& call);
template <class T>
void schur(const Call& call);

/// With complex results, whose parts are T.
template <class T>
void complex_schur(const Call& call);
template <class T>
void sqrtm(const Call& call);

}  // namespace lockstep::lapack
