// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/reduction.h"

/// Reductions composed of others. Axes are as in reduction.h.
namespace lockstep {

/// As the functions without "nan", but NaNs are ignored. If all elements are NaN: sum 0, product 1, others
/// NaN.
Array nansum(const Operand& x, ReduceOptions options = {});
Array nanprod(const Operand& x, ReduceOptions options = {});
Array nanmean(const Operand& x, ReduceOptions options = {});
Array nanmax(const Operand& x, ReduceOptions options = {});
Array nanmin(const Operand& x, ReduceOptions options = {});
Array nanvar(const Operand& x, VarianceOptions options = {});
Array nanstd(const Operand& x, VarianceOptions options = {});

/// The position of the largest (smallest) element that is not NaN; -1 if all are NaN.
Array nanargmax(const Operand& x, std::optional<std::int64_t> axis = std::nullopt);
Array nanargmin(const Operand& x, std::optional<std::int64_t> axis = std::nullopt);

/// max - min: "peak to peak". Throws ShapeError over no elements.
Array ptp(const Operand& x, ReduceOptions options = {});

/// The number of elements that are not 0 (or are true): i32.
Array count_nonzero(const Operand& x, ReduceOptions options = {});

/// sum(x * weights) / sum(weights), with a weight for each element, or for each along the axes. Without
/// weights, the mean.
Array average(const Operand& x, ReduceOptions options = {});
Array average(const Operand& x, const Operand& weights, ReduceOptions options = {});

/// The rows of x are variables, the columns observations. cov: the covariance matrix, normalized by n - ddof.
/// corrcoef: the correlation matrix.
Array cov(const Operand& x, double ddof = 1);
Array corrcoef(const Operand& x);

}  // namespace lockstep
