// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/trigonometric.h"

#include "lockstep/ops/apply.h"
#include "lockstep/program/primitives/special.h"

namespace lockstep {

Array tan(const Operand& x) { return ops::elementwise("tan", ops::Meet::kInexact, ir::tan_p(), {&x}); }
Array arcsin(const Operand& x) { return ops::elementwise("arcsin", ops::Meet::kInexact, ir::asin_p(), {&x}); }
Array arccos(const Operand& x) { return ops::elementwise("arccos", ops::Meet::kInexact, ir::acos_p(), {&x}); }
Array arctan(const Operand& x) { return ops::elementwise("arctan", ops::Meet::kInexact, ir::atan_p(), {&x}); }
Array sinh(const Operand& x) { return ops::elementwise("sinh", ops::Meet::kInexact, ir::sinh_p(), {&x}); }
Array cosh(const Operand& x) { return ops::elementwise("cosh", ops::Meet::kInexact, ir::cosh_p(), {&x}); }
Array arcsinh(const Operand& x) {
  return ops::elementwise("arcsinh", ops::Meet::kInexact, ir::asinh_p(), {&x});
}
Array arccosh(const Operand& x) {
  return ops::elementwise("arccosh", ops::Meet::kInexact, ir::acosh_p(), {&x});
}
Array arctanh(const Operand& x) {
  return ops::elementwise("arctanh", ops::Meet::kInexact, ir::atanh_p(), {&x});
}

Array arctan2(const Operand& y, const Operand& x) {
  return ops::elementwise("arctan2", ops::Meet::kInexact, ir::atan2_p(), {&y, &x});
}

}  // namespace lockstep
