// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/primitives/apply.h"

namespace lockstep::ir {

const Primitive& rev_p();
const Primitive& rotate_p();
const Primitive& reduce_precision_p();

struct RevParams {
  static constexpr std::array<std::string_view, 1> kFields = {"dimensions"};
  std::vector<std::int64_t> dimensions;
};

struct RotateParams {
  static constexpr std::array<std::string_view, 2> kFields = {"dimension", "by"};
  std::int64_t dimension, by;
};

struct ReducePrecisionParams {
  static constexpr std::array<std::string_view, 2> kFields = {"exponent_bits", "mantissa_bits"};
  std::int64_t exponent_bits, mantissa_bits;
};

namespace lax {

/// The elements in reverse order along the dimensions.
template <Operand V>
V rev(const V& x, std::vector<std::int64_t> dimensions) {
  if (dimensions.empty()) return x;
  return apply1<V>(rev_p(), OpParams::of(RevParams{std::move(dimensions)}), {x});
}

/// Element i along the dimension is x's element i + by, where the first element follows the last.
template <Operand V>
V rotate(const V& x, std::int64_t dimension, std::int64_t by) {
  const std::int64_t size = x.aval().shape.at(static_cast<std::size_t>(dimension));
  if (size == 0 || by % size == 0) return x;
  return apply1<V>(rotate_p(), OpParams::of(RotateParams{dimension, (by % size + size) % size}), {x});
}

/// x rounded to the precision of a format with these numbers of exponent and mantissa bits; keeps x's dtype.
template <Operand V>
V reduce_precision(const V& x, std::int64_t exponent_bits, std::int64_t mantissa_bits) {
  return apply1<V>(reduce_precision_p(), OpParams::of(ReducePrecisionParams{exponent_bits, mantissa_bits}),
                   {x});
}

}  // namespace lax
}  // namespace lockstep::ir
