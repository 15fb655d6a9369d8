#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/indexing.h"

/// How x[…] is done: a strided slice, in which the numbers' dimensions go, and of it a gather by the arrays.
namespace lockstep::ops {

struct IndexPlan {
  Shape shape;                                        ///< of x
  std::vector<std::int64_t> starts, limits, strides;  ///< of the slice; all strides positive
  std::vector<std::int64_t> reversed;                 ///< its dimensions that are then turned round
  Shape view;                                         ///< of the slice
  Shape squeezed;                                     ///< the same without the numbers' dimensions
  std::vector<std::int64_t> array_dims;               ///< of `squeezed`, those that arrays index
  std::vector<Array> arrays;
  Shape batch;                            ///< of the arrays, broadcast together
  std::vector<std::int64_t> offset_dims;  ///< of `taken`: those of slices
  Shape taken;                            ///< what the gather gives
  Shape result;                           ///< with the new axes
  bool whole = true;                      ///< the slice is x itself

  /// Whether the slice is a block of x, so that its place can be given when it runs: outside of a trace
  /// another place is then no new program.
  bool is_block() const;

  /// The dtype that holds every place in x.
  DType place_type() const;

  /// What tells programs apart; without the block's place where that is given.
  std::string key(bool at_a_place) const;

  /// The part of x: slice and gather. `arrays` stand for those of the plan; `place`, where there is one,
  /// holds the block's first index, of place_type() and one dimension.
  Array read(const Array& x, std::span<const Array> arrays, const std::optional<Array>& place,
             const IndexOptions& options) const;

  /// x with the values, of x's dtype and of shape `taken`, written into the part by the primitive, which is
  /// scatter_p() or one of its kind.
  Array write(const Primitive& kind, const Array& x, std::span<const Array> arrays,
              const std::optional<Array>& place, const Array& values, const IndexOptions& options) const;

 private:
  Array viewed(const Array& x, const std::optional<Array>& place) const;
  std::vector<Array> corner(const Array& x, const std::optional<Array>& place) const;
  Array starts_of(std::span<const Array> arrays) const;
};

/// Throws ShapeError or DTypeError where the indices do not fit.
IndexPlan plan_index(std::string_view operation, const Aval& x, std::span<const Index> indices);

/// Indices as i32 or i64, of which negative ones count from the end of a dimension of this size.
Array wrapped_indices(const Array& indices, std::int64_t size);

/// Throws DTypeError unless the indices are whole numbers.
void check_indices(std::string_view operation, const Aval& indices);

}  // namespace lockstep::ops
