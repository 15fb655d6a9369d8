// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/primitives/apply.h"

namespace lockstep {

/// Complex numbers and their parts, and bit patterns of numbers.
const Primitive& complex_p();
const Primitive& real_p();
const Primitive& imag_p();
const Primitive& bitcast_convert_type_p();
const Primitive& population_count_p();

struct BitcastParams {
  static constexpr std::array<std::string_view, 1> kFields = {"dtype"};
  DType dtype;
};

namespace lax {

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

/// The same bits as numbers of another dtype of the same width; not for bools and complex numbers.
template <Operand V>
V bitcast_convert_type(const V& x, DType dtype) {
  return apply1<V>(bitcast_convert_type_p(), OpParams::of(BitcastParams{dtype}), {x});
}

/// The number of bits of an integer that are set.
template <Operand V>
V population_count(const V& x) {
  return apply1<V>(population_count_p(), {x});
}

}  // namespace lax
}  // namespace lockstep
