// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/trigonometric_on_cpus.h"

#include <numbers>

#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/elementwise.h"

namespace lockstep::ir {
namespace {

/// The bits of 2/pi, 28 at a time. f32 numbers have 24 bits, so products with these have at most 52.
constexpr double kTwoByPi[] = {0xa2f9836p-28,  0xe4e4415p-56,  0x29fc275p-84, 0x7d1f534p-112,
                               0xddc0db6p-140, 0x295993cp-168, 0x439041fp-196};
/// The products with the first five may exceed 4, which is a whole turn.
constexpr std::size_t kMayBeLarge = 5;

Value times(const Value& x, double factor) { return lax::mul(x, lax::full_like(x, factor)); }
Value plus(const Value& x, double number) { return lax::add(x, lax::full_like(x, number)); }
Value has_bit(const Value& x, int bit) {
  return lax::ne(lax::logical_and(x, lax::full_like(x, bit)), lax::full_like(x, 0));
}

/// An angle in quarter turns: a whole number of them, modulo 4, and the rest, -0.5 to 0.5.
struct Turns {
  Value quarters, rest;
};
Turns turns_of(const Value& x) {
  Value rest = lax::full_like(x, 0), quarters = rest;
  const auto take_whole = [&] {
    const Value whole = lax::round(rest);
    rest = lax::sub(rest, whole);
    quarters = lax::add(quarters, whole);
  };
  for (std::size_t i = 0; i < std::size(kTwoByPi); ++i) {
    Value product = times(x, kTwoByPi[i]);
    if (i < kMayBeLarge) product = lax::sub(product, times(lax::round(times(product, 0.25)), 4));
    rest = lax::add(rest, product);
    if (i < kMayBeLarge) take_whole();
  }
  take_whole();
  return {quarters, rest};
}

}  // namespace

Value trigonometric_on_cpus(Trigonometric function, const Value& x) {
  const Value wide = lax::convert_element_type(x, DType::kF64);
  const Turns turns = turns_of(wide);
  const Value r = times(turns.rest, std::numbers::pi / 2), z = lax::mul(r, r), zz = lax::mul(z, z);
  const Value sin_low = plus(times(z, 0x111110896efbb2.0p-59), -0x15555554cbac77.0p-55),
              sin_high = plus(times(z, 0x16cd878c3b46a7.0p-71), -0x1a00f9e2cae774.0p-65),
              sin = lax::add(r, lax::mul(lax::mul(z, r), lax::add(sin_low, lax::mul(zz, sin_high))));
  const Value cos_low =
                  lax::add(plus(times(z, -0x1ffffffd0c5e81.0p-54), 1), times(zz, 0x155553e1053a42.0p-57)),
              cos_high = plus(times(z, 0x199342e0ee5069.0p-68), -0x16c087e80f1e27.0p-62),
              cos = lax::add(cos_low, lax::mul(lax::mul(zz, z), cos_high));
  Value quarters = lax::convert_element_type(turns.quarters, DType::kI32);
  if (function == Trigonometric::kCos) quarters = plus(quarters, 1);
  const Value is_odd = has_bit(quarters, 1);
  Value result = lax::select(is_odd, cos, sin);
  if (function == Trigonometric::kTan)
    result = lax::div(result, lax::select(is_odd, lax::neg(sin), cos));
  else
    result = lax::select(has_bit(quarters, 2), lax::neg(result), result);
  // 0 + -0 is 0, so the sums above lose the sign of -0.
  if (function != Trigonometric::kCos)
    result = lax::select(lax::eq(wide, lax::full_like(wide, 0)), wide, result);
  return lax::convert_element_type(result, x.aval().dtype);
}

Primitive vectorized_on_cpus(Primitive p, Trigonometric function) {
  constexpr std::int64_t kFewest = 256;  // elements
  p.lower = [as_it_is = p.lower, name = p.name, function](Lowering& out, const Equation& e) {
    const Aval& aval = out.result_aval(e);
    if (!out.for_cpu() || !is_floating(aval.dtype) || size_of(aval.dtype) > 4 ||
        aval.num_elements() < kFewest)
      return as_it_is(out, e);
    const Lowering::Names names =
        out.composed(e, name + "_on_cpus", [function](const std::vector<Value>& operands) {
          return trigonometric_on_cpus(function, operands[0]);
        });
    return out.barrier(names, {out.result_type(e)});
  };
  return p;
}

}  // namespace lockstep::ir
