// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>
#include <string_view>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/ops/matmul.h"

namespace lockstep {

/// Sums of products in Einstein's notation, as in jax.numpy: einsum("bij,bjk->bik", {x, y}). Labels are
/// letters; "..." stands for leading dimensions, which broadcast. Without "->", the result has the labels
/// that occur once, in alphabetical order. A label that occurs twice in one operand takes its diagonal.
/// Operands are contracted in pairs, in the order of opt_einsum's greedy rule. Dtypes are promoted. Throws
/// ShapeError, with the label, for subscripts that do not match the operands. Up to three operands can stand
/// without braces: einsum("bij,bjk->bik", x, y).
Array einsum(std::string_view subscripts, const std::vector<Array>& operands,
             std::source_location where = std::source_location::current());
Array einsum(std::string_view subscripts, const std::vector<Array>& operands, const DotOptions& options,
             std::source_location where = std::source_location::current());

inline Array einsum(std::string_view subscripts, const Array& x,
                    std::source_location where = std::source_location::current()) {
  return einsum(subscripts, std::vector<Array>{x}, where);
}
inline Array einsum(std::string_view subscripts, const Array& x, const Array& y,
                    std::source_location where = std::source_location::current()) {
  return einsum(subscripts, std::vector<Array>{x, y}, where);
}
inline Array einsum(std::string_view subscripts, const Array& x, const Array& y, const Array& z,
                    std::source_location where = std::source_location::current()) {
  return einsum(subscripts, std::vector<Array>{x, y, z}, where);
}

}  // namespace lockstep
