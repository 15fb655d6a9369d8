// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/trigonometric.h"

#include <cmath>
#include <numbers>

#include "lockstep/ops/apply.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/special.h"

namespace lockstep {
namespace {

using ops::Meet;
using ops::Tracers;

template <class Compose>
Array unary(const std::string& name, const Operand& x, Compose compose) {
  return ops::elementwise(name, "", Meet::kInexact, {&x}, [&](Tracers t) { return compose(t[0]); });
}

Array constant(const Array& like, double value) { return lax::full_like(like, value); }

/// sqrt(1 - x²), exact near 1.
Array other_side(const Array& x) {
  Array one = constant(x, 1);
  return lax::sqrt(lax::mul(lax::sub(one, x), lax::add(one, x)));
}

/// For larger numbers, adjacent squares differ by more than 1.
double large(DType dtype) { return dtype == DType::kF64 ? 1e9 : 1e5; }

}  // namespace

Array tan(const Operand& x) {
  return unary("tan", x, [](const Array& x) { return lax::div(lax::sin(x), lax::cos(x)); });
}

Array arcsin(const Operand& x) {
  return unary("arcsin", x, [](const Array& x) { return lax::atan2(x, other_side(x)); });
}

Array arccos(const Operand& x) {
  return unary("arccos", x, [](const Array& x) { return lax::atan2(other_side(x), x); });
}

Array arctan(const Operand& x) {
  return unary("arctan", x, [](const Array& x) { return lax::atan2(x, constant(x, 1)); });
}

Array arctan2(const Operand& y, const Operand& x) {
  return ops::elementwise("arctan2", "", Meet::kInexact, {&y, &x},
                          [](Tracers t) { return lax::atan2(t[0], t[1]); });
}

Array sinh(const Operand& x) {
  return unary("sinh", x, [](const Array& x) {
    // Half of exp(x) - exp(-x); each exponent less log(2), so that it overflows no sooner than the result.
    Array ln2 = constant(x, std::numbers::ln2), one = constant(x, 1);
    Array far = lax::sub(lax::exp(lax::sub(x, ln2)), lax::exp(lax::sub(lax::neg(x), ln2)));
    Array is_near = lax::lt(lax::abs(x), one);
    Array e = lax::expm1(lax::select(is_near, x, constant(x, 0)));
    Array near = lax::mul(constant(x, 0.5), lax::add(e, lax::div(e, lax::add(e, one))));
    return lax::select(is_near, near, far);
  });
}

Array cosh(const Operand& x) {
  return unary("cosh", x, [](const Array& x) {
    Array ln2 = constant(x, std::numbers::ln2);
    return lax::add(lax::exp(lax::sub(x, ln2)), lax::exp(lax::sub(lax::neg(x), ln2)));
  });
}

Array arcsinh(const Operand& x) {
  return unary("arcsinh", x, [](const Array& x) {
    // log(a + sqrt(a² + 1)) of a = |x|, written so that nothing cancels near 0 and nothing overflows.
    Array sign = lax::select(lax::lt(x, constant(x, 0)), constant(x, -1), constant(x, 1));
    Array a = lax::mul(x, sign), one = constant(x, 1);
    Array is_far = lax::gt(a, constant(x, large(x.dtype())));
    Array b = lax::select(is_far, one, a), square = lax::mul(b, b);
    Array root = lax::sqrt(lax::add(square, one));
    Array near = lax::log1p(lax::add(b, lax::div(square, lax::add(one, root))));
    Array far = lax::add(lax::log(lax::select(is_far, a, one)), constant(x, std::numbers::ln2));
    return lax::mul(sign, lax::select(is_far, far, near));
  });
}

Array arccosh(const Operand& x) {
  return unary("arccosh", x, [](const Array& x) {
    Array one = constant(x, 1), is_far = lax::gt(x, constant(x, large(x.dtype())));
    Array above = lax::sub(lax::select(is_far, constant(x, 2), x), one);
    Array near = lax::log1p(lax::add(above, lax::sqrt(lax::mul(above, lax::add(above, constant(x, 2))))));
    Array far = lax::add(lax::log(lax::select(is_far, x, one)), constant(x, std::numbers::ln2));
    return lax::select(is_far, far, near);
  });
}

Array arctanh(const Operand& x) {
  return unary("arctanh", x, [](const Array& x) {
    return lax::mul(constant(x, 0.5), lax::sub(lax::log1p(x), lax::log1p(lax::neg(x))));
  });
}

}  // namespace lockstep
