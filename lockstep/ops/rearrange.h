// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <source_location>
#include <string_view>
#include <vector>

#include "lockstep/ops/reduction.h"

/// More operations that move elements, as in shape.h. Axes count from 0, or from -1 at the end. Shapes and
/// axes that do not match throw a ShapeError with the user's line.
namespace lockstep {

/// The elements in reverse order along the axes, by default along all.
Array flip(const Operand& x, Axes axis = {});
Array flipud(const Operand& x);
Array fliplr(const Operand& x);

/// Rotated by k * 90 degrees, from the first axis towards the second.
Array rot90(const Operand& x, std::int64_t k = 1, std::int64_t axis1 = 0, std::int64_t axis2 = 1);

/// Each element moved by `shift` positions along the axis, and from the end to the start. By default x is
/// treated as flattened. Several axes are rolled one after the other.
Array roll(const Operand& x, std::int64_t shift, std::optional<std::int64_t> axis = std::nullopt);
Array roll(const Operand& x, const std::vector<std::int64_t>& shifts, const std::vector<std::int64_t>& axes);

/// Each element repeated `repeats` times along the axis; by default x is flattened.
Array repeat(const Operand& x, std::int64_t repeats, std::optional<std::int64_t> axis = std::nullopt);

struct RepeatOptions {
  std::int64_t total_repeat_length;  ///< the size of the result along the axis
  std::optional<std::int64_t> axis = std::nullopt;
};

/// Element i repeated repeats[i] times. `repeats` are nonnegative integers: a scalar, or one for each
/// element. Their sum is only known at run time, so the result's size is an option: surplus elements are
/// dropped, and missing ones are copies of the last element.
Array repeat(const Operand& x, const Array& repeats, RepeatOptions options);

/// x repeated this many times in each dimension; missing dimensions of x are added in front.
Array tile(const Operand& x, const std::vector<std::int64_t>& repetitions);
Array tile(const Operand& x, std::int64_t repetitions);

/// For a vector: a square matrix with x on diagonal k and zeros elsewhere. For a matrix: its diagonal k.
Array diag(const Operand& x, std::int64_t k = 0);

/// The elements at [i, i + offset] of the two axes. The two axes are removed, and the diagonal becomes the
/// last dimension.
Array diagonal(const Operand& x, std::int64_t offset = 0, std::int64_t axis1 = 0, std::int64_t axis2 = 1);

/// The sum of the diagonal.
Array trace(const Operand& x, std::int64_t offset = 0, std::int64_t axis1 = 0, std::int64_t axis2 = 1);

/// A matrix with ones on and below diagonal k, and zeros above.
Array tri(std::int64_t rows, std::optional<std::int64_t> columns = std::nullopt, std::int64_t k = 0,
          DType dtype = DType::kF32, std::source_location where = std::source_location::current());

/// split_at: split before each of the indices along the axis. array_split: split into `parts` parts, of which
/// the first ones may be larger by one.
std::vector<Array> split_at(const Operand& x, const std::vector<std::int64_t>& indices,
                            std::int64_t axis = 0);
std::vector<Array> array_split(const Operand& x, std::int64_t parts, std::int64_t axis = 0);

/// Concatenation: hstack along the second axis (vectors: the first), vstack along the first, dstack along the
/// third. vstack treats vectors as rows, column_stack as columns.
Array hstack(const std::vector<Array>& arrays, std::source_location where = std::source_location::current());
Array vstack(const std::vector<Array>& arrays, std::source_location where = std::source_location::current());
Array dstack(const std::vector<Array>& arrays, std::source_location where = std::source_location::current());
Array column_stack(const std::vector<Array>& arrays,
                   std::source_location where = std::source_location::current());

/// The values appended to x along the axis; by default both are flattened.
Array append(const Operand& x, const Operand& values, std::optional<std::int64_t> axis = std::nullopt);

struct MeshgridOptions {
  std::string_view indexing = "xy";  ///< "xy": the first array is along the second dimension; "ij": along the
                                     ///< first
  bool sparse = false;               ///< keep size 1 in the dimensions along which an array would be repeated
};

/// The coordinates of a grid, from vectors.
std::vector<Array> meshgrid(const std::vector<Array>& arrays, MeshgridOptions options = {},
                            std::source_location where = std::source_location::current());

}  // namespace lockstep
