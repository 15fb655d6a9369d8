// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/primitives/apply.h"

namespace lockstep::ir {

const Primitive& sort_p();

struct SortParams {
  static constexpr std::array<std::string_view, 5> kFields = {"dimension", "is_stable", "num_keys",
                                                              "descending", "count"};
  std::int64_t dimension;
  bool is_stable;
  std::int64_t num_keys;
  bool descending;
  std::int64_t count = kAll;  ///< only this many of the first elements along the dimension are kept

  static constexpr std::int64_t kAll = -1;
};

namespace lax {

/// The operands, all of one shape, sorted along the dimension by the first num_keys of them: by the first, if
/// equal by the second, and so on. NaN counts as the largest.
template <Operand V>
std::vector<V> sort(std::span<const V> operands, std::int64_t dimension, std::int64_t num_keys = 1,
                    bool is_stable = true, bool descending = false) {
  return apply_primitive(sort_p(), OpParams::of(SortParams{dimension, is_stable, num_keys, descending}),
                         operands);
}

/// The first `count` elements of each in that order. If the dimension is split over devices, each device only
/// sends its own first elements.
template <Operand V>
std::vector<V> first_sorted(std::span<const V> operands, std::int64_t dimension, std::int64_t count,
                            std::int64_t num_keys = 1, bool descending = false) {
  return apply_primitive(sort_p(), OpParams::of(SortParams{dimension, true, num_keys, descending, count}),
                         operands);
}

}  // namespace lax
}  // namespace lockstep::ir
