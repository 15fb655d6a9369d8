#pragma once

#include <optional>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/ops/operand.h"
#include "lockstep/ops/reduction.h"

/// Operations that move elements. Axes are counted from 0, or from -1 at the end. Shapes and axes that do not
/// fit are a ShapeError with the user's line.
namespace lockstep {

/// The same elements in row-major order; one size may be -1, and is found from the others.
Array reshape(const Operand& x, const Shape& shape);

/// In one dimension.
Array ravel(const Operand& x);

/// The axes in this order, or, by default, reversed.
Array transpose(const Operand& x, const std::vector<std::int64_t>& axes = {});
Array swapaxes(const Operand& x, std::int64_t axis1, std::int64_t axis2);
Array moveaxis(const Operand& x, std::int64_t from, std::int64_t to);

/// With a new dimension of size 1, which is dimension `axis` of the result.
Array expand_dims(const Operand& x, std::int64_t axis);

/// Without these dimensions, which must be of size 1; by default without all such.
Array squeeze(const Operand& x, Axes axis = {});

Array broadcast_to(const Operand& x, const Shape& shape);

/// One after the other along an axis; and along a new one. Dtypes are promoted.
Array concatenate(const std::vector<Array>& arrays, std::int64_t axis = 0,
                  std::source_location where = std::source_location::current());
Array stack(const std::vector<Array>& arrays, std::int64_t axis = 0,
            std::source_location where = std::source_location::current());

/// Parts of one size along the axis.
std::vector<Array> split(const Operand& x, std::int64_t parts, std::int64_t axis = 0);

/// Elements start, start + stride, … below limit, in each dimension. No strides: all 1.
Array slice(const Operand& x, const std::vector<std::int64_t>& starts,
            const std::vector<std::int64_t>& limits, const std::vector<std::int64_t>& strides = {});

/// x[i] of the leading dimension, which goes; counted from 0, or from -1 at the end.
Array index(const Operand& x, std::int64_t i);

/// The part of x of these sizes that starts at `starts`, one for each dimension: whole numbers or scalar
/// arrays of them; negative ones count from the end, as in JAX. Starts are clamped so that the part lies
/// within x.
Array dynamic_slice(const Operand& x, const std::vector<Operand>& starts, const Shape& sizes);

/// x with the part at `starts` replaced by `update`.
Array dynamic_update_slice(const Operand& x, const Operand& update, const std::vector<Operand>& starts);

/// With `widths` elements of the value put before and behind in each dimension.
Array pad(const Operand& x, const std::vector<std::pair<std::int64_t, std::int64_t>>& widths,
          const Operand& value = 0);

/// In the last two dimensions, what lies on and below (above) the diagonal k, and zeros.
Array tril(const Operand& x, std::int64_t k = 0);
Array triu(const Operand& x, std::int64_t k = 0);

}  // namespace lockstep
