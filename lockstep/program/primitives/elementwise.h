// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/primitives/apply.h"

namespace lockstep::ir {

/// The elementwise primitives.
const Primitive& neg_p();
const Primitive& sign_p();
const Primitive& abs_p();
const Primitive& floor_p();
const Primitive& ceil_p();
const Primitive& round_p();
const Primitive& exp_p();
const Primitive& expm1_p();
const Primitive& log_p();
const Primitive& log1p_p();
const Primitive& tanh_p();
const Primitive& logistic_p();
const Primitive& sqrt_p();
const Primitive& rsqrt_p();
const Primitive& sin_p();
const Primitive& cos_p();
const Primitive& is_finite_p();
const Primitive& logical_not_p();
const Primitive& add_p();
const Primitive& sub_p();
const Primitive& mul_p();
const Primitive& div_p();
const Primitive& gcd_p();
const Primitive& rem_p();
const Primitive& pow_p();
const Primitive& max_p();
const Primitive& min_p();
const Primitive& logical_and_p();
const Primitive& logical_or_p();
const Primitive& logical_xor_p();
const Primitive& shift_left_p();
const Primitive& shift_right_logical_p();
const Primitive& shift_right_arithmetic_p();
const Primitive& eq_p();
const Primitive& ne_p();
const Primitive& lt_p();
const Primitive& le_p();
const Primitive& gt_p();
const Primitive& ge_p();
const Primitive& select_p();
const Primitive& convert_element_type_p();
const Primitive& stop_gradient_p();

struct ConvertParams {
  static constexpr std::array<std::string_view, 2> kFields = {"dtype", "weak_type"};
  DType dtype;
  bool weak_type;
};

namespace lax {

/// Unary operations. round rounds to the nearest integer, ties to even; logistic is 1 / (1 + exp(-x)); rsqrt
/// is 1 / sqrt(x); is_finite returns bools; logical_not is bitwise for integers.
template <Operand V>
V neg(const V& x) {
  return apply1<V>(neg_p(), {x});
}
template <Operand V>
V sign(const V& x) {
  return apply1<V>(sign_p(), {x});
}
template <Operand V>
V abs(const V& x) {
  return apply1<V>(abs_p(), {x});
}
template <Operand V>
V floor(const V& x) {
  return apply1<V>(floor_p(), {x});
}
template <Operand V>
V ceil(const V& x) {
  return apply1<V>(ceil_p(), {x});
}
template <Operand V>
V round(const V& x) {
  return apply1<V>(round_p(), {x});
}
template <Operand V>
V exp(const V& x) {
  return apply1<V>(exp_p(), {x});
}
template <Operand V>
V expm1(const V& x) {
  return apply1<V>(expm1_p(), {x});
}
template <Operand V>
V log(const V& x) {
  return apply1<V>(log_p(), {x});
}
template <Operand V>
V log1p(const V& x) {
  return apply1<V>(log1p_p(), {x});
}
template <Operand V>
V tanh(const V& x) {
  return apply1<V>(tanh_p(), {x});
}
template <Operand V>
V logistic(const V& x) {
  return apply1<V>(logistic_p(), {x});
}
template <Operand V>
V sqrt(const V& x) {
  return apply1<V>(sqrt_p(), {x});
}
template <Operand V>
V rsqrt(const V& x) {
  return apply1<V>(rsqrt_p(), {x});
}
template <Operand V>
V sin(const V& x) {
  return apply1<V>(sin_p(), {x});
}
template <Operand V>
V cos(const V& x) {
  return apply1<V>(cos_p(), {x});
}
template <Operand V>
V is_finite(const V& x) {
  return apply1<V>(is_finite_p(), {x});
}
template <Operand V>
V logical_not(const V& x) {
  return apply1<V>(logical_not_p(), {x});
}

/// Binary operations on operands of one shape and dtype. The remainder has the sign of x; logical_… is
/// bitwise for integers.
template <Operand V>
V add(const V& x, const V& y) {
  return apply1<V>(add_p(), {x, y});
}
template <Operand V>
V sub(const V& x, const V& y) {
  return apply1<V>(sub_p(), {x, y});
}
template <Operand V>
V mul(const V& x, const V& y) {
  return apply1<V>(mul_p(), {x, y});
}
template <Operand V>
V div(const V& x, const V& y) {
  return apply1<V>(div_p(), {x, y});
}
/// The greatest common divisor of integers that are not negative; gcd(0, y) is y.
template <Operand V>
V gcd(const V& x, const V& y) {
  return apply1<V>(gcd_p(), {x, y});
}
template <Operand V>
V rem(const V& x, const V& y) {
  return apply1<V>(rem_p(), {x, y});
}
template <Operand V>
V pow(const V& x, const V& y) {
  return apply1<V>(pow_p(), {x, y});
}
template <Operand V>
V max(const V& x, const V& y) {
  return apply1<V>(max_p(), {x, y});
}
template <Operand V>
V min(const V& x, const V& y) {
  return apply1<V>(min_p(), {x, y});
}
template <Operand V>
V logical_and(const V& x, const V& y) {
  return apply1<V>(logical_and_p(), {x, y});
}
template <Operand V>
V logical_or(const V& x, const V& y) {
  return apply1<V>(logical_or_p(), {x, y});
}
template <Operand V>
V logical_xor(const V& x, const V& y) {
  return apply1<V>(logical_xor_p(), {x, y});
}
template <Operand V>
V shift_left(const V& x, const V& y) {
  return apply1<V>(shift_left_p(), {x, y});
}
template <Operand V>
V shift_right_logical(const V& x, const V& y) {
  return apply1<V>(shift_right_logical_p(), {x, y});
}
template <Operand V>
V shift_right_arithmetic(const V& x, const V& y) {
  return apply1<V>(shift_right_arithmetic_p(), {x, y});
}

/// Comparisons of two operands of one shape and dtype; the results are bools.
template <Operand V>
V eq(const V& x, const V& y) {
  return apply1<V>(eq_p(), {x, y});
}
template <Operand V>
V ne(const V& x, const V& y) {
  return apply1<V>(ne_p(), {x, y});
}
template <Operand V>
V lt(const V& x, const V& y) {
  return apply1<V>(lt_p(), {x, y});
}
template <Operand V>
V le(const V& x, const V& y) {
  return apply1<V>(le_p(), {x, y});
}
template <Operand V>
V gt(const V& x, const V& y) {
  return apply1<V>(gt_p(), {x, y});
}
template <Operand V>
V ge(const V& x, const V& y) {
  return apply1<V>(ge_p(), {x, y});
}

/// on_true where `which` is true, else on_false; all have one shape.
template <Operand V>
V select(const V& which, const V& on_true, const V& on_false) {
  return apply1<V>(select_p(), {which, on_true, on_false});
}

/// x converted to another dtype. Floating to integer rounds towards zero; conversion to bool is x != 0.
template <Operand V>
V convert_element_type(const V& x, DType dtype, bool weak_type = false) {
  if (x.aval().dtype == dtype && x.aval().weak_type == weak_type) return x;
  return apply1<V>(convert_element_type_p(), OpParams::of(ConvertParams{dtype, weak_type}), {x});
}

/// x with a derivative of zero.
template <Operand V>
V stop_gradient(const V& x) {
  return apply1<V>(stop_gradient_p(), {x});
}

}  // namespace lax
}  // namespace lockstep::ir
