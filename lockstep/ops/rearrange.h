#pragma once

#include <optional>
#include <source_location>
#include <string_view>
#include <vector>

#include "lockstep/ops/reduction.h"

/// Further operations that move elements, as in shape.h: axes are counted from 0, or from -1 at the end;
/// shapes and axes that do not fit are a ShapeError with the user's line.
namespace lockstep {

/// Reversed along the axes, by default along all.
Array flip(const Operand& x, Axes axis = {});
Array flipud(const Operand& x);
Array fliplr(const Operand& x);

/// Turned by k quarters of a circle, from the first axis to the second.
Array rot90(const Operand& x, std::int64_t k = 1, std::int64_t axis1 = 0, std::int64_t axis2 = 1);

/// Each element moved on by `shift` places along the axis, and from the end to the beginning; by default as
/// if x had one dimension. Of several axes, one after the other.
Array roll(const Operand& x, std::int64_t shift, std::optional<std::int64_t> axis = std::nullopt);
Array roll(const Operand& x, const std::vector<std::int64_t>& shifts, const std::vector<std::int64_t>& axes);

/// Each element `repeats` times, along the axis; by default of x in one dimension.
Array repeat(const Operand& x, std::int64_t repeats, std::optional<std::int64_t> axis = std::nullopt);

struct RepeatOptions {
  std::int64_t total_repeat_length;  ///< of the result along the axis
  std::optional<std::int64_t> axis = std::nullopt;
};

/// Element i repeats[i] times, of a number or whole numbers of one dimension, one for each element, none
/// below 0. What they add up to is known only when it runs, so the length is an option: what is more is left
/// out, what is missing is the last element once more.
Array repeat(const Operand& x, const Array& repeats, RepeatOptions options);

/// x put side by side so many times in each dimension; missing dimensions are put in front.
Array tile(const Operand& x, const std::vector<std::int64_t>& repetitions);
Array tile(const Operand& x, std::int64_t repetitions);

/// Of one dimension: a square matrix with x on the diagonal k, and zeros. Of two: the diagonal k.
Array diag(const Operand& x, std::int64_t k = 0);

/// The elements at [i, i + offset] of the two axes, which go; the diagonal is the last dimension.
Array diagonal(const Operand& x, std::int64_t offset = 0, std::int64_t axis1 = 0, std::int64_t axis2 = 1);

/// The sum of the diagonal.
Array trace(const Operand& x, std::int64_t offset = 0, std::int64_t axis1 = 0, std::int64_t axis2 = 1);

/// Ones on and below the diagonal k, and zeros.
Array tri(std::int64_t rows, std::optional<std::int64_t> columns = std::nullopt, std::int64_t k = 0,
          DType dtype = DType::kF32, std::source_location where = std::source_location::current());

/// Cut before each of the indices along the axis; and into parts of which the first may be longer by one.
std::vector<Array> split_at(const Operand& x, const std::vector<std::int64_t>& indices,
                            std::int64_t axis = 0);
std::vector<Array> array_split(const Operand& x, std::int64_t parts, std::int64_t axis = 0);

/// One after the other: along the first axis, the second (of one dimension: the first), the third. In vstack
/// arrays of one dimension are rows, in column_stack columns.
Array hstack(const std::vector<Array>& arrays, std::source_location where = std::source_location::current());
Array vstack(const std::vector<Array>& arrays, std::source_location where = std::source_location::current());
Array dstack(const std::vector<Array>& arrays, std::source_location where = std::source_location::current());
Array column_stack(const std::vector<Array>& arrays,
                   std::source_location where = std::source_location::current());

/// The values behind x along the axis; by default both in one dimension.
Array append(const Operand& x, const Operand& values, std::optional<std::int64_t> axis = std::nullopt);

struct MeshgridOptions {
  std::string_view indexing = "xy";  ///< "xy": the first array runs along the second dimension; or "ij"
  bool sparse = false;               ///< leave the dimensions of size 1 along which an array repeats
};

/// The coordinates of a grid, of arrays of one dimension.
std::vector<Array> meshgrid(const std::vector<Array>& arrays, MeshgridOptions options = {},
                            std::source_location where = std::source_location::current());

}  // namespace lockstep
