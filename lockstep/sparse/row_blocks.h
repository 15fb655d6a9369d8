// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "lockstep/sharding/sharding.h"
#include "lockstep/sparse/bcsr.h"

namespace lockstep::sparse {

/// A matrix whose rows are split into blocks of equal numbers of rows and of stored elements, one for each
/// device. Of each row the first `width` elements are stored, missing ones as padding; what longer rows have
/// besides is in a list for each block, as long as the longest. `width` is chosen for the least time of a
/// product. Padding has an index out of bounds, and is not multiplied.
///
/// A product with a vector communicates only parts of the vector: with a halo, that many elements from the
/// device before and as many from the one behind; otherwise each device gets all of it. The result is split
/// as the rows.
struct RowBlocks {
  Array data;          ///< [width, blocks, rows of a block]
  Array indices;       ///< i32, of the same shape: columns, with a halo counted from the block's first - halo
  Array rest_data;     ///< [blocks, most elements besides in a block]
  Array rest_rows;     ///< i32, of the same shape: rows within the block
  Array rest_indices;  ///< i32, of the same shape: as indices
  Shape shape;

  /// The columns of a block are at most so far from its own rows; -1 if that is more than a block has.
  std::int64_t halo = -1;

  DType dtype() const { return data.dtype(); }

  /// What gradients are of (value_and_grad in grad.h): those of padding are 0.
  using Values = std::pair<Array, Array>;
  Values values() const { return {data, rest_data}; }
  RowBlocks with_values(const Values& values) const;
};

/// The matrix with its rows split as `rows`, the sharding of a vector, splits that. The matrix is read on the
/// host: it is concrete, and the same on all processes, which call this together. The last blocks have rows
/// of padding where the devices do not divide the number of rows. Throws TraceError for a tracer, and
/// ShardingError unless `rows` splits one dimension.
RowBlocks split_rows(const BCSR& matrix, const Sharding& rows);

/// As those of BCOO. A product with the matrix at the right moves the same halos back, or sums vectors of all
/// columns over the devices.
Array matmul(const RowBlocks& a, const Operand& x);
Array matmul(const Operand& x, const RowBlocks& a);

}  // namespace lockstep::sparse
