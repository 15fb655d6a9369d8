// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/array/host_view.h"
#include "lockstep/ops/operand.h"

/// Sparse arrays, with the names of jax.experimental.sparse. They are trees: functions under jit take and
/// return them, and device_put and checkpoints work on them. Their shape and flags belong to the tree's
/// structure, so another shape, or another number of elements, is traced anew.
///
/// An element with an index out of bounds does not exist: it is padding. As in NumPy, a negative index counts
/// from the end. Elements with the same indices are added. A product does not multiply absent elements, so
/// that a NaN where all elements are absent has no effect.
namespace lockstep::sparse {

/// Elements with their indices, in any order.
struct BCOO {
  Array data;     ///< [nse], for "number of specified elements"
  Array indices;  ///< i32[nse, number of dimensions]
  Shape shape;
  bool indices_sorted = false;  ///< lexicographically
  bool unique_indices = false;  ///< none occurs twice; those out of bounds may

  std::int64_t nse() const { return data.size(); }
  std::int64_t ndim() const { return static_cast<std::int64_t>(shape.size()); }
  DType dtype() const { return data.dtype(); }

  /// The elements of x that are not 0, in order. In a traced function `nse` says how many they are
  /// (TraceError without it): surplus elements are left out, missing ones are padding.
  static BCOO fromdense(const Operand& x, std::optional<std::int64_t> nse = std::nullopt);

  /// A matrix of element data[i] at row rows[i] and column columns[i], as scipy's coo_array. Throws
  /// ShapeError if they are not vectors of one size, or the shape does not have two sizes.
  static BCOO from_coo(const HostView& data, const HostView& rows, const HostView& columns,
                       const Shape& shape);

  Array todense() const;

  /// The same array with its indices in lexicographic order, counted from 0.
  BCOO sort_indices() const;

  /// The same array with each index once, sorted, without elements that are 0. The result has nse elements,
  /// by default those that are left or, in a traced function, as many as before; missing ones are padding.
  BCOO sum_duplicates(std::optional<std::int64_t> nse = std::nullopt) const;

  /// Dimension i of the result is dimension axes[i]; without axes they are reversed. Throws ShapeError unless
  /// the axes are a permutation.
  BCOO transpose(const std::vector<std::int64_t>& axes = {}) const;
  BCOO T() const { return transpose(); }

  /// What gradients are of (value_and_grad in grad.h).
  using Values = Array;
  const Values& values() const { return data; }
  BCOO with_values(const Values& values) const;
};

/// The product of a sparse matrix with a vector or a matrix, and the reverse; an array that is not sparse.
/// The dtypes are promoted as by multiply. Throws ShapeError if the sizes do not match.
Array matmul(const BCOO& a, const Operand& x);
Array matmul(const Operand& x, const BCOO& a);

namespace internal {

/// The elements of a sparse matrix: values[i] at row rows[i] and column columns[i].
struct Elements {
  Array values, rows, columns;
};

/// The matrix of `num_rows` rows of these elements times x, whose first dimension is the columns.
Array product(const Elements& elements, const Array& x, std::int64_t num_rows);

/// x times the matrix of this shape and these elements. Throws as matmul does.
Array product(const Operand& x, const Elements& elements, const Shape& shape);

/// Throws ShapeError unless `shape` is that of a matrix.
void check_matrix(const Shape& shape);

/// x as an array, checked to be the right operand of a matrix of this shape; or, with `left`, transposed, the
/// left one.
Array checked_operand(const Shape& shape, const Operand& x, bool left);

}  // namespace internal
}  // namespace lockstep::sparse
