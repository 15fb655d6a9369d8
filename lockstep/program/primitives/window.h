// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "lockstep/program/padding.h"
#include "lockstep/program/primitives/apply.h"

namespace lockstep::ir {

/// Reductions over moving windows of an array.
const Primitive& reduce_window_sum_p();
const Primitive& reduce_window_max_p();
const Primitive& reduce_window_min_p();

/// Running results along an axis.
const Primitive& cumsum_p();
const Primitive& cumprod_p();
const Primitive& cummax_p();
const Primitive& cummin_p();
const Primitive& cumlogsumexp_p();

struct WindowParams {
  static constexpr std::array<std::string_view, 6> kFields = {"window_dimensions", "window_strides",
                                                              "padding_low",       "padding_high",
                                                              "base_dilation",     "window_dilation"};
  std::vector<std::int64_t> window_dimensions, window_strides, padding_low, padding_high, base_dilation,
      window_dilation;
};

struct CumulativeParams {
  static constexpr std::array<std::string_view, 2> kFields = {"axis", "reverse"};
  std::int64_t axis;
  bool reverse;
};

/// The extent of `size` elements at a distance of `dilation`.
std::int64_t dilated(std::int64_t size, std::int64_t dilation);

/// The number of windows of this size in a dimension, after both are dilated and the dimension is padded.
std::int64_t window_count(std::int64_t size, std::int64_t window, std::int64_t stride, std::int64_t low,
                          std::int64_t high, std::int64_t base_dilation, std::int64_t window_dilation);

/// The padding for which a window begins at every stride-th element ("SAME"), or all windows are within the
/// array ("VALID"). Throws ShapeError for another name.
Padding named_padding(std::string_view name, const Shape& sizes, const std::vector<std::int64_t>& windows,
                      const std::vector<std::int64_t>& strides);

namespace lax {

/// x, with base_dilation - 1 padding elements between its elements and `padding` around, reduced over windows
/// whose elements have the distance window_dilation. All lists have an entry for each dimension; an empty
/// list means 1 in each dimension (for padding: none). Padding elements are the neutral element of the
/// reduction.
template <Operand V>
V reduce_window(const Primitive& reduction, const V& x, std::vector<std::int64_t> window_dimensions,
                std::vector<std::int64_t> window_strides, const Padding& padding,
                std::vector<std::int64_t> base_dilation = {},
                std::vector<std::int64_t> window_dilation = {}) {
  const std::size_t rank = window_dimensions.size();
  for (auto* list : {&window_strides, &base_dilation, &window_dilation}) {
    if (list->empty()) list->assign(rank, 1);
  }
  std::vector<std::int64_t> low(padding.empty() ? rank : 0), high = low;
  for (const auto& [before, behind] : padding) {
    low.push_back(before);
    high.push_back(behind);
  }
  return apply1<V>(
      reduction,
      OpParams::of(WindowParams{std::move(window_dimensions), std::move(window_strides), std::move(low),
                                std::move(high), std::move(base_dilation), std::move(window_dilation)}),
      {x});
}

/// The sums, products, … of the elements up to each position along the axis; with `reverse` from each
/// position on. cumlogsumexp is the logarithm of the running sum of exponentials.
template <Operand V>
V cumulative(const Primitive& kind, const V& x, std::int64_t axis, bool reverse = false) {
  return apply1<V>(kind, OpParams::of(CumulativeParams{axis, reverse}), {x});
}

}  // namespace lax
}  // namespace lockstep::ir
