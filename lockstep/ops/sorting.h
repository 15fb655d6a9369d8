#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/ops/reduction.h"

/// Order. A NaN counts as the largest number; equals keep their order. Axes are counted from 0, or from -1 at
/// the end; one that there is not is a ShapeError, complex numbers are a DTypeError.
namespace lockstep {

struct SortOptions {
  std::optional<std::int64_t> axis = -1;  ///< nullopt: of x in one dimension
  bool descending = false;
};

Array sort(const Operand& x, SortOptions options = {});
Array sort(const Operand& x, std::int64_t axis);

/// The places, of i32, in which sort finds its elements.
Array argsort(const Operand& x, SortOptions options = {});
Array argsort(const Operand& x, std::int64_t axis);

/// The places that sort by the last of the keys, where that is equal by the one before, …. At least one.
Array lexsort(const std::vector<Array>& keys, std::int64_t axis = -1,
              std::source_location where = std::source_location::current());

/// The k largest along the axis, the largest first, and their places.
std::pair<Array, Array> top_k(const Operand& x, std::int64_t k, std::int64_t axis = -1);

/// Where each value would go into `sorted`, of one dimension and in rising order: before equals ("left") or
/// behind them ("right"). Of i32.
Array searchsorted(const Operand& sorted, const Operand& values, std::string_view side = "left");

struct QuantileOptions {
  std::optional<std::int64_t> axis = std::nullopt;  ///< nullopt: over all elements
  bool keepdims = false;
  std::string_view method = "linear";  ///< between two elements: linear, lower, higher, nearest, midpoint
};

/// What a part q (of 1; percentile: of 100) of the elements along the axis does not exceed. q is a number, or
/// an array of one dimension, which then stands in front. NaN where there is one among the elements.
Array quantile(const Operand& x, const Operand& q, QuantileOptions options = {});
Array percentile(const Operand& x, const Operand& q, QuantileOptions options = {});
Array median(const Operand& x, QuantileOptions options = {});
Array median(const Operand& x, std::int64_t axis);

/// Running sums, products, maxima and minima along the axis, or, by default, over x in one dimension; bools
/// are counted in i32. reverse: from the end.
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

/// The differences of neighbours along the axis, n times over.
Array diff(const Operand& x, std::int64_t n = 1, std::int64_t axis = -1);

/// The distinct elements of x, in order, in an array of `size`: what is more is left out, what is left over
/// holds the fill value, or, by default, the smallest element (of no elements: 0).
Array unique(const Operand& x, std::int64_t size, std::optional<double> fill_value = std::nullopt);

/// Places and counts are of i32, or of i64 where x has more elements than that holds.
struct UniqueResult {
  Array values;
  Array indices;          ///< the place in x, in one dimension, where each stands first
  Array inverse_indices;  ///< of x's shape: where each element is found in `values`
  Array counts;           ///< how often each stands in x, 0 of those left over
};
UniqueResult unique_all(const Operand& x, std::int64_t size, std::optional<double> fill_value = std::nullopt);

/// For each dimension of x the indices of the elements that are not 0, in row-major order, in arrays of
/// `size`: what is more is left out, what is left over holds the fill value. Of i32, or of i64 where x has
/// more elements than that holds.
std::vector<Array> nonzero(const Operand& x, std::int64_t size, std::int64_t fill_value = 0);
Array flatnonzero(const Operand& x, std::int64_t size, std::int64_t fill_value = 0);

/// How often each of 0 … length - 1 stands in x, of whole numbers; with weights, of x's shape, their sums. A
/// negative number counts as 0, larger ones are left out.
Array bincount(const Operand& x, std::int64_t length);
Array bincount(const Operand& x, std::int64_t length, const Operand& weights);

/// The sums, products, … of the rows of each segment: row i of the data, along the first dimension, belongs
/// to segment segment_ids[i], and to none where that is not one of 0 … num_segments - 1. Of no rows: 0, 1,
/// the lowest, the highest value of the dtype.
Array segment_sum(const Operand& data, const Operand& segment_ids, std::int64_t num_segments);
Array segment_prod(const Operand& data, const Operand& segment_ids, std::int64_t num_segments);
Array segment_max(const Operand& data, const Operand& segment_ids, std::int64_t num_segments);
Array segment_min(const Operand& data, const Operand& segment_ids, std::int64_t num_segments);

}  // namespace lockstep
