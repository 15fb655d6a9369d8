// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/comparison.h"

#include <limits>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/reduction.h"
#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep {
namespace {

using ops::Meet;
using ops::Tracers;

Array truth(const Array& x) {
  return x.dtype() == DType::kBool ? x : ir::lax::ne(x, ir::lax::full_like(x, 0));
}

Array logical(const std::string& name, const ir::Primitive& primitive, const Operand& x, const Operand& y) {
  return ops::elementwise(name, "", Meet::kPromote, {&x, &y}, [&](Tracers t) {
    return ir::lax::apply1<Array>(primitive, {truth(t[0]), truth(t[1])});
  });
}

Array is_infinity(const std::string& name, const Operand& x, double infinity) {
  return ops::elementwise(name, "", Meet::kPromote, {&x}, [infinity](Tracers t) {
    if (is_inexact(t[0].dtype())) return ir::lax::eq(t[0], ir::lax::full_like(t[0], infinity));
    return ir::lax::full(t[0], ir::Scalar::of(false), DType::kBool, t[0].shape());
  });
}

Array all_true(const Array& like, bool value) {
  return ir::lax::full(like, ir::Scalar::of(value), DType::kBool, like.shape());
}

}  // namespace

Array equal(const Operand& x, const Operand& y) {
  return ops::elementwise("equal", Meet::kPromote, ir::eq_p(), {&x, &y});
}
Array not_equal(const Operand& x, const Operand& y) {
  return ops::elementwise("not_equal", Meet::kPromote, ir::ne_p(), {&x, &y});
}
Array less(const Operand& x, const Operand& y) {
  return ops::elementwise("less", Meet::kPromote, ir::lt_p(), {&x, &y});
}
Array less_equal(const Operand& x, const Operand& y) {
  return ops::elementwise("less_equal", Meet::kPromote, ir::le_p(), {&x, &y});
}
Array greater(const Operand& x, const Operand& y) {
  return ops::elementwise("greater", Meet::kPromote, ir::gt_p(), {&x, &y});
}
Array greater_equal(const Operand& x, const Operand& y) {
  return ops::elementwise("greater_equal", Meet::kPromote, ir::ge_p(), {&x, &y});
}

Array logical_and(const Operand& x, const Operand& y) {
  return logical("logical_and", ir::logical_and_p(), x, y);
}
Array logical_or(const Operand& x, const Operand& y) {
  return logical("logical_or", ir::logical_or_p(), x, y);
}
Array logical_xor(const Operand& x, const Operand& y) {
  return logical("logical_xor", ir::logical_xor_p(), x, y);
}
Array logical_not(const Operand& x) {
  return ops::elementwise("logical_not", "", Meet::kPromote, {&x},
                          [](Tracers t) { return ir::lax::logical_not(truth(t[0])); });
}

Array bitwise_and(const Operand& x, const Operand& y) {
  return ops::elementwise("bitwise_and", Meet::kPromote, ir::logical_and_p(), {&x, &y});
}
Array bitwise_or(const Operand& x, const Operand& y) {
  return ops::elementwise("bitwise_or", Meet::kPromote, ir::logical_or_p(), {&x, &y});
}
Array bitwise_xor(const Operand& x, const Operand& y) {
  return ops::elementwise("bitwise_xor", Meet::kPromote, ir::logical_xor_p(), {&x, &y});
}
Array bitwise_not(const Operand& x) {
  return ops::elementwise("bitwise_not", "", Meet::kPromote, {&x},
                          [](Tracers t) { return ir::lax::logical_not(t[0]); });
}

Array isfinite(const Operand& x) {
  return ops::elementwise("isfinite", "", Meet::kPromote, {&x}, [](Tracers t) {
    return is_inexact(t[0].dtype()) ? ops::is_finite(t[0]) : all_true(t[0], true);
  });
}

Array isnan(const Operand& x) {
  return ops::elementwise("isnan", "", Meet::kPromote, {&x},
                          [](Tracers t) { return ir::lax::ne(t[0], t[0]); });
}

Array isinf(const Operand& x) {
  return ops::elementwise("isinf", "", Meet::kPromote, {&x}, [](Tracers t) {
    if (!is_inexact(t[0].dtype())) return all_true(t[0], false);
    auto infinite = [](const Array& x) {
      return ir::lax::eq(ir::lax::abs(x), ir::lax::full_like(x, std::numeric_limits<double>::infinity()));
    };
    if (!is_complex(t[0].dtype())) return infinite(t[0]);
    return ir::lax::logical_or(infinite(ir::lax::real(t[0])), infinite(ir::lax::imag(t[0])));
  });
}

Array isposinf(const Operand& x) {
  return is_infinity("isposinf", x, std::numeric_limits<double>::infinity());
}
Array isneginf(const Operand& x) {
  return is_infinity("isneginf", x, -std::numeric_limits<double>::infinity());
}

Array isclose(const Operand& x, const Operand& y, CloseOptions options) {
  const std::string key = fmt::format("{} {} {}", options.rtol, options.atol, options.equal_nan);
  return ops::elementwise("isclose", key, Meet::kInexact, {&x, &y}, [options](Tracers t) {
    Array size = ir::lax::abs(t[1]);
    Array bound = ir::lax::add(ir::lax::full_like(size, options.atol),
                               ir::lax::mul(ir::lax::full_like(size, options.rtol), size));
    Array near = ir::lax::le(ir::lax::abs(ir::lax::sub(t[0], t[1])), bound);
    Array finite = ir::lax::logical_and(ops::is_finite(t[0]), ops::is_finite(t[1]));
    Array close = ir::lax::logical_or(ir::lax::logical_and(finite, near), ir::lax::eq(t[0], t[1]));
    if (!options.equal_nan) return close;
    return ir::lax::logical_or(close, ir::lax::logical_and(ir::lax::ne(t[0], t[0]), ir::lax::ne(t[1], t[1])));
  });
}

Array allclose(const Operand& x, const Operand& y, CloseOptions options) {
  return all(isclose(x, y, options));
}

Array array_equal(const Operand& x, const Operand& y) {
  if (x.shape() != y.shape()) {
    const Operand no(false, x.where());
    return no.as_array();
  }
  return all(equal(x, y));
}

Array where(const Operand& condition, const Operand& x, const Operand& y) {
  CallSiteScope here(condition.site());
  const ElementType both[] = {x.type(), y.type()};
  const ElementType type = promote("where", both);
  const Aval avals[] = {condition.aval(), x.aval(), y.aval()};
  const Shape shape = ops::broadcast_shapes("where", avals);
  return ops::run(
      "where", std::string(name(type.dtype)),
      {condition.as_array(condition.type(), shape), x.as_array({type.dtype, x.type().weak}, shape),
       y.as_array({type.dtype, y.type().weak}, shape)},
      [&](Tracers t) {
        return ir::lax::select(ops::broadcast(truth(t[0]), shape), ops::conform(t[1], type, shape),
                               ops::conform(t[2], type, shape));
      });
}

}  // namespace lockstep
