// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/sparse/bcoo.h"

namespace lockstep::sparse {

/// A matrix by rows: the elements of row i are those from indptr[i] up to indptr[i + 1]. Elements behind the
/// last row are padding.
struct BCSR {
  Array data;     ///< [nse]
  Array indices;  ///< i32[nse]: columns
  Array indptr;   ///< i32[rows + 1], ascending
  Shape shape;

  /// No row has more elements; 0 if that is not known, as in a traced function. Matrices of short rows have a
  /// faster product.
  std::int64_t longest_row = 0;

  std::int64_t nse() const { return data.size(); }
  DType dtype() const { return data.dtype(); }

  /// As BCOO::fromdense, for a matrix.
  static BCSR fromdense(const Operand& x, std::optional<std::int64_t> nse = std::nullopt);

  /// Of scipy's csr_array: data, column indices and row pointers. Throws ShapeError if their sizes do not fit
  /// the shape or each other, or the pointers do not ascend from 0 to at most the number of elements.
  static BCSR from_csr(const HostView& data, const HostView& indices, const HostView& indptr,
                       const Shape& shape);

  /// Sorts the elements if they are not sorted.
  static BCSR from_bcoo(const BCOO& x);
  BCOO to_bcoo() const;

  Array todense() const { return to_bcoo().todense(); }

  /// As of BCOO.
  BCSR sort_indices() const;
  BCSR sum_duplicates(std::optional<std::int64_t> nse = std::nullopt) const;
  BCSR transpose() const { return from_bcoo(to_bcoo().transpose()); }
  BCSR T() const { return transpose(); }
  using Values = Array;
  const Values& values() const { return data; }
  BCSR with_values(const Values& values) const;
};

/// As those of BCOO.
Array matmul(const BCSR& a, const Operand& x);
Array matmul(const Operand& x, const BCSR& a);

}  // namespace lockstep::sparse
