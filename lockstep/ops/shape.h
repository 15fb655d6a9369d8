// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/ops/operand.h"
#include "lockstep/ops/reduction.h"

/// Operations that move elements. Axes count from 0, or from -1 at the end. Shapes and axes that do not match
/// throw a ShapeError with the user's line.
namespace lockstep {

/// The same elements in row-major order. One size may be -1; it is computed from the others.
Array reshape(const Operand& x, const Shape& shape);

/// x flattened to one dimension.
Array ravel(const Operand& x);

/// transpose: the axes in this order, by default reversed.
Array transpose(const Operand& x, const std::vector<std::int64_t>& axes = {});
Array swapaxes(const Operand& x, std::int64_t axis1, std::int64_t axis2);
Array moveaxis(const Operand& x, std::int64_t from, std::int64_t to);

/// x with a new dimension of size 1, which is dimension `axis` of the result.
Array expand_dims(const Operand& x, std::int64_t axis);

/// x without these dimensions, which must have size 1; by default without all dimensions of size 1.
Array squeeze(const Operand& x, Axes axis = {});

Array broadcast_to(const Operand& x, const Shape& shape);

/// concatenate joins along an axis, stack along a new one. Dtypes are promoted.
Array concatenate(const std::vector<Array>& arrays, std::int64_t axis = 0,
                  std::source_location where = std::source_location::current());
Array stack(const std::vector<Array>& arrays, std::int64_t axis = 0,
            std::source_location where = std::source_location::current());

/// `parts` parts of equal size along the axis.
std::vector<Array> split(const Operand& x, std::int64_t parts, std::int64_t axis = 0);

/// The elements start, start + stride, … below limit, in each dimension. By default all strides are 1.
Array slice(const Operand& x, const std::vector<std::int64_t>& starts,
            const std::vector<std::int64_t>& limits, const std::vector<std::int64_t>& strides = {});

/// x[i] along the first dimension, which is removed; i counts from 0, or from -1 at the end.
Array index(const Operand& x, std::int64_t i);

/// The part of x with these sizes at `starts`, one start for each dimension: integers or integer scalar
/// arrays. Negative ones count from the end, as in JAX. Starts are clamped so that the part is within x.
Array dynamic_slice(const Operand& x, const std::vector<Operand>& starts, const Shape& sizes);

/// x with the part at `starts` replaced by `update`. Starts are treated as in dynamic_slice.
Array dynamic_update_slice(const Operand& x, const Operand& update, const std::vector<Operand>& starts);

/// x with `widths` elements of the value added before and after each dimension.
Array pad(const Operand& x, const std::vector<std::pair<std::int64_t, std::int64_t>>& widths,
          const Operand& value = 0);

/// In the last two dimensions: tril keeps the elements on and below diagonal k, triu those on and above; the
/// others are 0.
Array tril(const Operand& x, std::int64_t k = 0);
Array triu(const Operand& x, std::int64_t k = 0);

}  // namespace lockstep
