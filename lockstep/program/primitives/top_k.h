// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/primitives/apply.h"

namespace lockstep::ir {

const Primitive& top_k_p();

struct TopKParams {
  static constexpr std::array<std::string_view, 1> kFields = {"k"};
  std::int64_t k;
};

namespace lax {

/// The k largest elements along the last dimension, the largest first, and their places there (i32). Of equal
/// elements the first come first; NaN counts as the largest, and 0 as larger than -0. If the dimension is
/// split over devices, each device only sends its own k largest.
template <Operand V>
std::vector<V> top_k(const V& x, std::int64_t k) {
  return apply_primitive(top_k_p(), OpParams::of(TopKParams{k}), std::span<const V>(&x, 1));
}

}  // namespace lax
}  // namespace lockstep::ir
