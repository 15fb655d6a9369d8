#pragma once

#include "lockstep/program/primitives/apply.h"

namespace lockstep {

const Primitive& sort_p();

struct SortParams {
  static constexpr std::array<std::string_view, 4> kFields = {"dimension", "is_stable", "num_keys",
                                                              "descending"};
  std::int64_t dimension;
  bool is_stable;
  std::int64_t num_keys;
  bool descending;
};

namespace lax {

/// The operands, all of one shape, put in the order of the first num_keys of them along the dimension: by the
/// first, where that is equal by the second, …. A NaN counts as the largest.
template <Operand V>
std::vector<V> sort(std::span<const V> operands, std::int64_t dimension, std::int64_t num_keys = 1,
                    bool is_stable = true, bool descending = false) {
  return apply_primitive(sort_p(), OpParams::of(SortParams{dimension, is_stable, num_keys, descending}),
                         operands);
}

}  // namespace lax
}  // namespace lockstep
