// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/indexing.h"

/// The steps of x[…]: a strided slice, which removes the dimensions indexed by numbers, then a gather by the
/// index arrays.
namespace lockstep::ops {

struct IndexPlan {
  Shape shape;                                        ///< of x
  std::vector<std::int64_t> starts, limits, strides;  ///< of the slice; all strides positive
  std::vector<std::int64_t> reversed;                 ///< dimensions of the slice that are then reversed
  Shape view;                                         ///< the shape of the slice
  Shape squeezed;                                     ///< the same, without the dimensions indexed by numbers
  std::vector<std::int64_t> array_dims;               ///< the dimensions of `squeezed` that arrays index
  std::vector<Array> arrays;
  Shape batch;                            ///< the broadcast shape of the index arrays
  std::vector<std::int64_t> offset_dims;  ///< the dimensions of `taken` that come from slices
  Shape taken;                            ///< the shape of the gather's result
  Shape result;                           ///< the same, with the new axes
  bool whole = true;                      ///< the slice is x itself

  /// Whether the slice is one block of x. Then its position can be an argument, and outside of a trace
  /// another position needs no new program.
  bool is_block() const;

  /// The integer dtype that holds every position in x.
  DType place_type() const;

  /// The part of an operation's key that distinguishes plans; without the block's position if that is an
  /// argument (`at_a_place`).
  std::string key(bool at_a_place) const;

  /// Reads the part of x: slice and gather. `arrays` are the plan's index arrays; `place`, if set, is a
  /// vector of place_type() with the block's first indices.
  Array read(const Array& x, std::span<const Array> arrays, const std::optional<Array>& place,
             const IndexOptions& options) const;

  /// x with the values, which have x's dtype and shape `taken`, written into the part by the primitive
  /// `kind`: scatter_p() or one of its variants.
  Array write(const ir::Primitive& kind, const Array& x, std::span<const Array> arrays,
              const std::optional<Array>& place, const Array& values, const IndexOptions& options) const;

 private:
  Array viewed(const Array& x, const std::optional<Array>& place) const;
  std::vector<Array> corner(const Array& x, const std::optional<Array>& place) const;
  Array starts_of(std::span<const Array> arrays) const;
};

/// Throws ShapeError or DTypeError if the indices do not match x.
IndexPlan plan_index(std::string_view operation, const Aval& x, std::span<const Index> indices);

/// The indices as i32 or i64; negative ones count from the end of a dimension of this size.
Array wrapped_indices(const Array& indices, std::int64_t size);

/// Throws DTypeError unless the indices are integers.
void check_indices(std::string_view operation, const Aval& indices);

}  // namespace lockstep::ops
