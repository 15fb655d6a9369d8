// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/primitives/convolution.h"

// Forms of convolutions for which XLA's CPU compiler has faster code (benchmarks/compare_torch).
namespace lockstep::ir {

/// Whether the convolution is one product of matrices: along each spatial dimension the kernels have one
/// element, or the result has one and no padding is read. So are convolutions with 1 x 1 kernels and their
/// derivatives. `lhs`, `rhs` and `result` are the shapes.
bool is_product(const Shape& lhs, const Shape& rhs, const Shape& result, const ConvParams& params);

/// That product.
Value as_product(const Value& lhs, const Value& rhs, const Shape& result, const ConvParams& params);

/// The padding to add to lhs before the convolution, in each of its dimensions: where the kernels have more
/// elements than lhs, XLA's library takes the padded array only. Empty if there is no such dimension.
struct EarlyPadding {
  std::vector<std::int64_t> low, high;
};
std::optional<EarlyPadding> early_padding(const Shape& lhs, const Shape& rhs, const ConvParams& params);

}  // namespace lockstep::ir
