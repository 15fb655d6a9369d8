// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/trigonometric.h"

#include "lockstep/ops/apply.h"
#include "lockstep/program/primitives/special.h"

namespace lockstep {

Array tan(const Operand& x) { return ops::elementwise("tan", ops::Meet::kInexact, tan_p(), {&x}); }
Array arcsin(const Operand& x) { return ops::elementwise("arcsin", ops::Meet::kInexact, asin_p(), {&x}); }
Array arccos(const Operand& x) { return ops::elementwise("arccos", ops::Meet::kInexact, acos_p(), {&x}); }
Array arctan(const Operand& x) { return ops::elementwise("arctan", ops::Meet::kInexact, atan_p(), {&x}); }
Array sinh(const Operand& x) { return ops::elementwise("sinh", ops::Meet::kInexact, sinh_p(), {&x}); }
Array cosh(const Operand& x) { return ops::elementwise("cosh", ops::Meet::kInexact, cosh_p(), {&x}); }
Array arcsinh(const Operand& x) { return ops::elementwise("arcsinh", ops::Meet::kInexact, asinh_p(), {&x}); }
Array arccosh(const Operand& x) { return ops::elementwise("arccosh", ops::Meet::kInexact, acosh_p(), {&x}); }
Array arctanh(const Operand& x) { return ops::elementwise("arctanh", ops::Meet::kInexact, atanh_p(), {&x}); }

Array arctan2(const Operand& y, const Operand& x) {
  return ops::elementwise("arctan2", ops::Meet::kInexact, atan2_p(), {&y, &x});
}

}  // namespace lockstep
