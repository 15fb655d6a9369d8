#pragma once

#include <source_location>
#include <string_view>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/ops/linear_algebra.h"

namespace lockstep {

/// Sums of products by Einstein's convention, as in jax.numpy: einsum("bij,bjk->bik", {x, y}). Labels are
/// letters; "..." stands for leading dimensions, which broadcast; without "->", the result has the labels
/// that stand once, in alphabetical order; a label twice in one operand takes its diagonal. Operands are
/// taken from left to right. Dtypes are promoted. Throws ShapeError for subscripts that do not fit the
/// operands, naming the label.
Array einsum(std::string_view subscripts, const std::vector<Array>& operands,
             std::source_location where = std::source_location::current());
Array einsum(std::string_view subscripts, const std::vector<Array>& operands, const DotOptions& options,
             std::source_location where = std::source_location::current());

}  // namespace lockstep
