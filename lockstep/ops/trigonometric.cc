// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/trigonometric.h"

#include "lockstep/ops/apply.h"
#include "lockstep/program/primitives/special.h"

namespace lockstep {
namespace {

using ops::Meet;
using ops::Tracers;

Array unary(const std::string& name, const Operand& x, const Primitive& primitive) {
  return ops::elementwise(name, "", Meet::kInexact, {&x},
                          [&](Tracers t) { return lax::apply1<Array>(primitive, {t[0]}); });
}

}  // namespace

Array tan(const Operand& x) { return unary("tan", x, tan_p()); }
Array arcsin(const Operand& x) { return unary("arcsin", x, asin_p()); }
Array arccos(const Operand& x) { return unary("arccos", x, acos_p()); }
Array arctan(const Operand& x) { return unary("arctan", x, atan_p()); }
Array sinh(const Operand& x) { return unary("sinh", x, sinh_p()); }
Array cosh(const Operand& x) { return unary("cosh", x, cosh_p()); }
Array arcsinh(const Operand& x) { return unary("arcsinh", x, asinh_p()); }
Array arccosh(const Operand& x) { return unary("arccosh", x, acosh_p()); }
Array arctanh(const Operand& x) { return unary("arctanh", x, atanh_p()); }

Array arctan2(const Operand& y, const Operand& x) {
  return ops::elementwise("arctan2", "", Meet::kInexact, {&y, &x},
                          [](Tracers t) { return lax::atan2(t[0], t[1]); });
}

}  // namespace lockstep
