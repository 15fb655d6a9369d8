#pragma once

#include "lockstep/ops/reduction.h"

/// Reductions made of others. Axes as in reduction.h.
namespace lockstep {

/// As the functions without "nan", over what is not NaN. Of only NaNs: sum 0, product 1, the others NaN.
Array nansum(const Operand& x, ReduceOptions options = {});
Array nanprod(const Operand& x, ReduceOptions options = {});
Array nanmean(const Operand& x, ReduceOptions options = {});
Array nanmax(const Operand& x, ReduceOptions options = {});
Array nanmin(const Operand& x, ReduceOptions options = {});
Array nanvar(const Operand& x, VarianceOptions options = {});
Array nanstd(const Operand& x, VarianceOptions options = {});

/// The place of the largest (smallest) element that is not NaN; -1 where all are NaN.
Array nanargmax(const Operand& x, std::optional<std::int64_t> axis = std::nullopt);
Array nanargmin(const Operand& x, std::optional<std::int64_t> axis = std::nullopt);

/// max - min: "peak to peak". Throws ShapeError over no elements.
Array ptp(const Operand& x, ReduceOptions options = {});

/// How many elements are not 0 (are true): i32.
Array count_nonzero(const Operand& x, ReduceOptions options = {});

/// sum(x * weights) / sum(weights); the weights broadcast to x. Without weights, the mean.
Array average(const Operand& x, ReduceOptions options = {});
Array average(const Operand& x, const Operand& weights, ReduceOptions options = {});

/// Covariance of the variables that are x's rows, whose columns are observations: of n - ddof. And
/// correlation: the covariance over the standard deviations.
Array cov(const Operand& x, double ddof = 1);
Array corrcoef(const Operand& x);

}  // namespace lockstep
