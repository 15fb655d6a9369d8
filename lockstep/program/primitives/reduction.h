// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/primitives/apply.h"

namespace lockstep::ir {

/// Reductions over dimensions.
const Primitive& reduce_sum_p();
const Primitive& reduce_prod_p();
const Primitive& reduce_max_p();
const Primitive& reduce_min_p();
const Primitive& reduce_and_p();
const Primitive& reduce_or_p();
const Primitive& argmax_p();
const Primitive& argmin_p();

struct ReduceParams {
  static constexpr std::array<std::string_view, 1> kFields = {"axes"};
  std::vector<std::int64_t> axes;  ///< ascending
};

struct ArgParams {
  static constexpr std::array<std::string_view, 2> kFields = {"axis", "index_dtype"};
  std::int64_t axis;
  DType index_dtype;
};

namespace lax {

/// x reduced over the axes, which count from 0 and are removed. An empty sum is 0, an empty product 1, an
/// empty maximum the lowest number, an empty minimum the highest, an empty "and" true, an empty "or" false.
template <Operand V>
V reduce(const Primitive& reduction, const V& x, std::vector<std::int64_t> axes) {
  if (axes.empty()) return x;
  return apply1<V>(reduction, OpParams::of(ReduceParams{std::move(axes)}), {x});
}
template <Operand V>
V reduce_sum(const V& x, std::vector<std::int64_t> axes) {
  return reduce(reduce_sum_p(), x, std::move(axes));
}
template <Operand V>
V reduce_prod(const V& x, std::vector<std::int64_t> axes) {
  return reduce(reduce_prod_p(), x, std::move(axes));
}
template <Operand V>
V reduce_max(const V& x, std::vector<std::int64_t> axes) {
  return reduce(reduce_max_p(), x, std::move(axes));
}
template <Operand V>
V reduce_min(const V& x, std::vector<std::int64_t> axes) {
  return reduce(reduce_min_p(), x, std::move(axes));
}
template <Operand V>
V reduce_and(const V& x, std::vector<std::int64_t> axes) {
  return reduce(reduce_and_p(), x, std::move(axes));
}
template <Operand V>
V reduce_or(const V& x, std::vector<std::int64_t> axes) {
  return reduce(reduce_or_p(), x, std::move(axes));
}

/// The position of the largest (smallest) element along the axis; of equal elements the first. NaN counts as
/// the largest (smallest).
template <Operand V>
V argmax(const V& x, std::int64_t axis, DType index_dtype = DType::kI32) {
  return apply1<V>(argmax_p(), OpParams::of(ArgParams{axis, index_dtype}), {x});
}
template <Operand V>
V argmin(const V& x, std::int64_t axis, DType index_dtype = DType::kI32) {
  return apply1<V>(argmin_p(), OpParams::of(ArgParams{axis, index_dtype}), {x});
}

}  // namespace lax
}  // namespace lockstep::ir
