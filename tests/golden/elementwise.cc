// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/ops.h"
#include "tests/golden/functions.h"

namespace lockstep::golden {

void add_elementwise(Functions& all) {
  all["negative"] = [](const Arrays& a) { return Arrays{negative(a[0])}; };
  all["abs"] = [](const Arrays& a) { return Arrays{abs(a[0])}; };
  all["sign"] = [](const Arrays& a) { return Arrays{sign(a[0])}; };
  all["square"] = [](const Arrays& a) { return Arrays{square(a[0])}; };
  all["exp"] = [](const Arrays& a) { return Arrays{exp(a[0])}; };
  all["expm1"] = [](const Arrays& a) { return Arrays{expm1(a[0])}; };
  all["tanh"] = [](const Arrays& a) { return Arrays{tanh(a[0])}; };
  all["sin"] = [](const Arrays& a) { return Arrays{sin(a[0])}; };
  all["cos"] = [](const Arrays& a) { return Arrays{cos(a[0])}; };
  all["tan"] = [](const Arrays& a) { return Arrays{tan(a[0])}; };
  all["arctan"] = [](const Arrays& a) { return Arrays{arctan(a[0])}; };
  all["sinh"] = [](const Arrays& a) { return Arrays{sinh(a[0])}; };
  all["cosh"] = [](const Arrays& a) { return Arrays{cosh(a[0])}; };
  all["arcsinh"] = [](const Arrays& a) { return Arrays{arcsinh(a[0])}; };
  all["exp2"] = [](const Arrays& a) { return Arrays{exp2(a[0])}; };
  all["sinc"] = [](const Arrays& a) { return Arrays{sinc(a[0])}; };
  all["cbrt"] = [](const Arrays& a) { return Arrays{cbrt(a[0])}; };
  all["deg2rad"] = [](const Arrays& a) { return Arrays{deg2rad(a[0])}; };
  all["rad2deg"] = [](const Arrays& a) { return Arrays{rad2deg(a[0])}; };
  all["reciprocal"] = [](const Arrays& a) { return Arrays{reciprocal(a[0])}; };
  all["positive"] = [](const Arrays& a) { return Arrays{positive(a[0])}; };
  all["log"] = [](const Arrays& a) { return Arrays{log(a[0])}; };
  all["log1p"] = [](const Arrays& a) { return Arrays{log1p(a[0])}; };
  all["log2"] = [](const Arrays& a) { return Arrays{log2(a[0])}; };
  all["log10"] = [](const Arrays& a) { return Arrays{log10(a[0])}; };
  all["sqrt"] = [](const Arrays& a) { return Arrays{sqrt(a[0])}; };
  all["rsqrt"] = [](const Arrays& a) { return Arrays{rsqrt(a[0])}; };
  all["sigmoid"] = [](const Arrays& a) { return Arrays{sigmoid(a[0])}; };
  all["arcsin"] = [](const Arrays& a) { return Arrays{arcsin(a[0])}; };
  all["arccos"] = [](const Arrays& a) { return Arrays{arccos(a[0])}; };
  all["arctanh"] = [](const Arrays& a) { return Arrays{arctanh(a[0])}; };
  all["arccosh"] = [](const Arrays& a) { return Arrays{arccosh(a[0])}; };
  all["floor"] = [](const Arrays& a) { return Arrays{floor(a[0])}; };
  all["ceil"] = [](const Arrays& a) { return Arrays{ceil(a[0])}; };
  all["round"] = [](const Arrays& a) { return Arrays{round(a[0])}; };
  all["trunc"] = [](const Arrays& a) { return Arrays{trunc(a[0])}; };
  all["nan_to_num"] = [](const Arrays& a) { return Arrays{nan_to_num(a[0])}; };
  all["isnan"] = [](const Arrays& a) { return Arrays{isnan(a[0])}; };
  all["isinf"] = [](const Arrays& a) { return Arrays{isinf(a[0])}; };
  all["isfinite"] = [](const Arrays& a) { return Arrays{isfinite(a[0])}; };
  all["isposinf"] = [](const Arrays& a) { return Arrays{isposinf(a[0])}; };
  all["isneginf"] = [](const Arrays& a) { return Arrays{isneginf(a[0])}; };
  all["signbit"] = [](const Arrays& a) { return Arrays{signbit(a[0])}; };
  all["logical_not"] = [](const Arrays& a) { return Arrays{logical_not(a[0])}; };
  all["bitwise_not"] = [](const Arrays& a) { return Arrays{bitwise_not(a[0])}; };
  all["bitwise_count"] = [](const Arrays& a) { return Arrays{bitwise_count(a[0])}; };
  all["round(decimals=1)"] = [](const Arrays& a) { return Arrays{round(a[0], 1)}; };
  all["add"] = [](const Arrays& a) { return Arrays{add(a[0], a[1])}; };
  all["add(broadcast)"] = [](const Arrays& a) { return Arrays{add(a[0], a[1])}; };
  all["subtract"] = [](const Arrays& a) { return Arrays{subtract(a[0], a[1])}; };
  all["subtract(broadcast)"] = [](const Arrays& a) { return Arrays{subtract(a[0], a[1])}; };
  all["multiply"] = [](const Arrays& a) { return Arrays{multiply(a[0], a[1])}; };
  all["multiply(broadcast)"] = [](const Arrays& a) { return Arrays{multiply(a[0], a[1])}; };
  all["divide"] = [](const Arrays& a) { return Arrays{divide(a[0], a[1])}; };
  all["maximum"] = [](const Arrays& a) { return Arrays{maximum(a[0], a[1])}; };
  all["minimum"] = [](const Arrays& a) { return Arrays{minimum(a[0], a[1])}; };
  all["hypot"] = [](const Arrays& a) { return Arrays{hypot(a[0], a[1])}; };
  all["arctan2"] = [](const Arrays& a) { return Arrays{arctan2(a[0], a[1])}; };
  all["logaddexp"] = [](const Arrays& a) { return Arrays{logaddexp(a[0], a[1])}; };
  all["logaddexp2"] = [](const Arrays& a) { return Arrays{logaddexp2(a[0], a[1])}; };
  all["copysign"] = [](const Arrays& a) { return Arrays{copysign(a[0], a[1])}; };
  all["fmax"] = [](const Arrays& a) { return Arrays{fmax(a[0], a[1])}; };
  all["fmin"] = [](const Arrays& a) { return Arrays{fmin(a[0], a[1])}; };
  all["power"] = [](const Arrays& a) { return Arrays{power(a[0], a[1])}; };
  all["heaviside"] = [](const Arrays& a) { return Arrays{heaviside(a[0], a[1])}; };
  all["nextafter"] = [](const Arrays& a) { return Arrays{nextafter(a[0], a[1])}; };
  all["ldexp"] = [](const Arrays& a) { return Arrays{ldexp(a[0], a[1])}; };
  all["equal"] = [](const Arrays& a) { return Arrays{equal(a[0], a[1])}; };
  all["not_equal"] = [](const Arrays& a) { return Arrays{not_equal(a[0], a[1])}; };
  all["less"] = [](const Arrays& a) { return Arrays{less(a[0], a[1])}; };
  all["less_equal"] = [](const Arrays& a) { return Arrays{less_equal(a[0], a[1])}; };
  all["greater"] = [](const Arrays& a) { return Arrays{greater(a[0], a[1])}; };
  all["greater_equal"] = [](const Arrays& a) { return Arrays{greater_equal(a[0], a[1])}; };
  all["logical_and"] = [](const Arrays& a) { return Arrays{logical_and(a[0], a[1])}; };
  all["logical_or"] = [](const Arrays& a) { return Arrays{logical_or(a[0], a[1])}; };
  all["logical_xor"] = [](const Arrays& a) { return Arrays{logical_xor(a[0], a[1])}; };
  all["bitwise_and"] = [](const Arrays& a) { return Arrays{bitwise_and(a[0], a[1])}; };
  all["bitwise_or"] = [](const Arrays& a) { return Arrays{bitwise_or(a[0], a[1])}; };
  all["bitwise_xor"] = [](const Arrays& a) { return Arrays{bitwise_xor(a[0], a[1])}; };
  all["gcd"] = [](const Arrays& a) { return Arrays{gcd(a[0], a[1])}; };
  all["lcm"] = [](const Arrays& a) { return Arrays{lcm(a[0], a[1])}; };
  all["left_shift"] = [](const Arrays& a) { return Arrays{left_shift(a[0], a[1])}; };
  all["right_shift"] = [](const Arrays& a) { return Arrays{right_shift(a[0], a[1])}; };
  all["array_equal"] = [](const Arrays& a) { return Arrays{array_equal(a[0], a[1])}; };
  all["floor_divide"] = [](const Arrays& a) { return Arrays{floor_divide(a[0], a[1])}; };
  all["floor_divide(i32)"] = [](const Arrays& a) { return Arrays{floor_divide(a[0], a[1])}; };
  all["remainder"] = [](const Arrays& a) { return Arrays{remainder(a[0], a[1])}; };
  all["remainder(i32)"] = [](const Arrays& a) { return Arrays{remainder(a[0], a[1])}; };
  all["fmod"] = [](const Arrays& a) { return Arrays{fmod(a[0], a[1])}; };
  all["fmod(i32)"] = [](const Arrays& a) { return Arrays{fmod(a[0], a[1])}; };
  all["power(x, 3)"] = [](const Arrays& a) { return Arrays{power(a[0], 3)}; };
  all["power(x, -2)"] = [](const Arrays& a) { return Arrays{power(a[0], -2)}; };
  all["clamp"] = [](const Arrays& a) { return Arrays{clamp(a[0], a[1], a[2])}; };
  all["clip"] = [](const Arrays& a) { return Arrays{clip(a[0], -0.5, 0.75)}; };
  all["nextafter(special)"] = [](const Arrays& a) { return Arrays{nextafter(a[0], 1.0)}; };
  all["modf"] = [](const Arrays& a) {
    auto [fraction, whole] = modf(a[0]);
    return Arrays{fraction, whole};
  };
  all["divmod"] = [](const Arrays& a) {
    auto [quotient, rest] = divmod(a[0], a[1]);
    return Arrays{quotient, rest};
  };
  all["isclose"] = [](const Arrays& a) { return Arrays{isclose(a[0], a[0] * 1.000001)}; };
  all["allclose"] = [](const Arrays& a) { return Arrays{allclose(a[0], a[0])}; };
  all["where"] = [](const Arrays& a) { return Arrays{where(a[0], a[1], a[2])}; };
  all["astype(i32)"] = [](const Arrays& a) { return Arrays{astype(a[0], int32)}; };
}

}  // namespace lockstep::golden
