// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <numeric>

#include "lockstep/program/primitives/apply.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ir {

/// Complex numbers and their parts, and bit patterns of numbers.
const Primitive& complex_p();
const Primitive& real_p();
const Primitive& imag_p();
const Primitive& bitcast_convert_type_p();
const Primitive& population_count_p();
const Primitive& clz_p();

struct BitcastParams {
  static constexpr std::array<std::string_view, 1> kFields = {"dtype"};
  DType dtype;
};

namespace lax {
namespace internal {

/// The unsigned integers of so many bytes.
DType bits_of_size(std::int64_t bytes);

/// Throws ShapeError unless the last dimension of `parts` has `count` elements.
void check_parts(const Aval& x, const Shape& parts, std::int64_t count, DType to);

}  // namespace internal

/// c64 from two f32 operands, or c128 from f64, and their parts.
template <Operand V>
V complex(const V& real, const V& imag) {
  return apply1<V>(complex_p(), {real, imag});
}
template <Operand V>
V real(const V& x) {
  return apply1<V>(real_p(), {x});
}
template <Operand V>
V imag(const V& x) {
  return apply1<V>(imag_p(), {x});
}

/// The same bits as numbers of another dtype; not for bools and complex numbers. If the dtype is narrower,
/// each element becomes several along a new last dimension, the lowest bits first; if it is wider, the
/// elements along the last dimension become one. Throws ShapeError if that dimension is not of as many
/// elements.
template <Operand V>
V bitcast_convert_type(const V& x, DType dtype) {
  const Aval aval = x.aval();
  const auto from = static_cast<std::int64_t>(size_of(aval.dtype)),
             to = static_cast<std::int64_t>(size_of(dtype));
  if (from == to || is_complex(aval.dtype) || is_complex(dtype) || aval.dtype == DType::kBool ||
      dtype == DType::kBool)
    return apply1<V>(bitcast_convert_type_p(), OpParams::of(BitcastParams{dtype}), {x});
  const std::int64_t count = from > to ? from / to : to / from, width = 8 * std::min(from, to);
  const DType wide = internal::bits_of_size(std::max(from, to)),
              narrow = internal::bits_of_size(std::min(from, to));
  Shape parts = aval.shape;
  if (from > to) parts.push_back(count);
  internal::check_parts(aval, parts, count, dtype);
  const auto last = static_cast<std::int64_t>(parts.size()) - 1;
  const V shifts = mul(iota(x, wide, parts, last), full(x, Scalar::of(width), wide, parts));
  if (from > to) {
    std::vector<std::int64_t> kept(aval.shape.size());
    std::iota(kept.begin(), kept.end(), 0);
    const V all = broadcast_in_dim(bitcast_convert_type(x, wide), parts, kept);
    const V mask = full(x, Scalar::of((std::int64_t{1} << width) - 1), wide, parts);
    return bitcast_convert_type(
        convert_element_type(logical_and(shift_right_logical(all, shifts), mask), narrow), dtype);
  }
  // The parts have no bits in common, so their sum is all of them.
  const V moved = shift_left(convert_element_type(bitcast_convert_type(x, narrow), wide), shifts);
  return bitcast_convert_type(reduce_sum(moved, {last}), dtype);
}

/// The number of bits of an integer that are set, and of those above the highest one that is set.
template <Operand V>
V population_count(const V& x) {
  return apply1<V>(population_count_p(), {x});
}
template <Operand V>
V clz(const V& x) {
  return apply1<V>(clz_p(), {x});
}

}  // namespace lax
}  // namespace lockstep::ir
