// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/ops/reduction.h"

/// Sorting and related functions. NaN counts as the largest number; equal elements keep their order. Axes
/// count from 0, or from -1 at the end; an axis out of range is a ShapeError. Complex numbers are ordered by
/// the real part, then by the imaginary one; for top_k and quantiles they are a DTypeError, as in JAX.
namespace lockstep {

struct SortOptions {
  std::optional<std::int64_t> axis = -1;  ///< nullopt: x is flattened
  bool descending = false;
};

Array sort(const Operand& x, SortOptions options = {});
Array sort(const Operand& x, std::int64_t axis);

/// The positions, as i32, from which sort takes its elements.
Array argsort(const Operand& x, SortOptions options = {});
Array argsort(const Operand& x, std::int64_t axis);

/// The positions that sort by the last key, then by the one before it, and so on. At least one key is
/// required.
Array lexsort(const std::vector<Array>& keys, std::int64_t axis = -1,
              std::source_location where = std::source_location::current());

/// The k largest elements along the axis, the largest first, and their positions (i32, beyond 2^31 elements
/// i64): for few elements much faster than sorting. Of equal elements the first come first, NaN counts as the
/// largest, and 0 as larger than -0. Throws ShapeError if there are fewer than k elements, and DTypeError for
/// complex numbers.
std::pair<Array, Array> top_k(const Operand& x, std::int64_t k, std::int64_t axis = -1);

/// The position at which each value would be inserted into `sorted`, an ascending vector: before equal
/// elements ("left") or after them ("right"). As i32.
Array searchsorted(const Operand& sorted, const Operand& values, std::string_view side = "left");

struct QuantileOptions {
  std::optional<std::int64_t> axis = std::nullopt;  ///< nullopt: over all elements
  bool keepdims = false;
  std::string_view method = "linear";  ///< how to choose between two elements: linear, lower, higher,
                                       ///< nearest, midpoint
};

/// The q-quantiles (q from 0 to 1; for percentile from 0 to 100) of the elements along the axis. q is a
/// number or a vector; a vector's dimension comes first in the result. NaN if any of the elements is NaN.
Array quantile(const Operand& x, const Operand& q, QuantileOptions options = {});
Array percentile(const Operand& x, const Operand& q, QuantileOptions options = {});
Array median(const Operand& x, QuantileOptions options = {});
Array median(const Operand& x, std::int64_t axis);

/// Running sums, products, maxima and minima along the axis; by default x is flattened. Bools are summed in
/// i32. reverse: from the end.
struct CumulativeOptions {
  std::optional<std::int64_t> axis = std::nullopt;
  bool reverse = false;
};
Array cumsum(const Operand& x, CumulativeOptions options = {});
Array cumsum(const Operand& x, std::int64_t axis);
Array cumprod(const Operand& x, CumulativeOptions options = {});
Array cumprod(const Operand& x, std::int64_t axis);
Array cummax(const Operand& x, CumulativeOptions options = {});
Array cummax(const Operand& x, std::int64_t axis);
Array cummin(const Operand& x, CumulativeOptions options = {});
Array cummin(const Operand& x, std::int64_t axis);

/// The logarithm of the running sum of exponentials, without overflow.
Array cumlogsumexp(const Operand& x, CumulativeOptions options = {});
Array cumlogsumexp(const Operand& x, std::int64_t axis);

/// The differences of neighbours along the axis, applied n times.
Array diff(const Operand& x, std::int64_t n = 1, std::int64_t axis = -1);

/// The distinct elements of x, sorted, in an array of `size` elements. Surplus elements are dropped; missing
/// ones are the fill value, by default the smallest element (0 if x is empty).
Array unique(const Operand& x, std::int64_t size, std::optional<double> fill_value = std::nullopt);

/// Positions and counts are i32, or i64 if x has too many elements for i32.
struct UniqueResult {
  Array values;
  Array indices;          ///< the first position of each value in the flattened x
  Array inverse_indices;  ///< of x's shape: the position of each element in `values`
  Array counts;           ///< how often each value occurs in x; 0 for filled ones
};
UniqueResult unique_all(const Operand& x, std::int64_t size, std::optional<double> fill_value = std::nullopt);

/// For each dimension of x, the indices of the elements that are not 0, in row-major order, in an array of
/// `size` elements. Surplus indices are dropped; missing ones are the fill value. i32, or i64 if x has too
/// many elements for i32.
std::vector<Array> nonzero(const Operand& x, std::int64_t size, std::int64_t fill_value = 0);
Array flatnonzero(const Operand& x, std::int64_t size, std::int64_t fill_value = 0);

/// How often each of 0 … length - 1 occurs in the integers x; with weights, of x's shape, the sums of the
/// weights. Negative numbers count as 0; larger ones are dropped.
Array bincount(const Operand& x, std::int64_t length);
Array bincount(const Operand& x, std::int64_t length, const Operand& weights);

/// The sums, products, … of the rows of each segment. Row i of the data, along the first dimension, belongs
/// to segment segment_ids[i]; it is dropped if that is not in 0 … num_segments - 1. A segment without rows
/// gives 0 for sums, 1 for products, the dtype's lowest number for maxima, and its highest for minima.
Array segment_sum(const Operand& data, const Operand& segment_ids, std::int64_t num_segments);
Array segment_prod(const Operand& data, const Operand& segment_ids, std::int64_t num_segments);
Array segment_max(const Operand& data, const Operand& segment_ids, std::int64_t num_segments);
Array segment_min(const Operand& data, const Operand& segment_ids, std::int64_t num_segments);

}  // namespace lockstep
