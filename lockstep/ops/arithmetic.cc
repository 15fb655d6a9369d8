// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/arithmetic.h"

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/special.h"

namespace lockstep {
namespace {

using ops::Meet;
using ops::Tracers;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void check_integers(std::string_view operation, const Operand& x) {
  if (is_integer(x.type().dtype)) return;
  CallSiteScope here(x.site());
  fail<DTypeError>("[{}] expected integers, got {}{}; convert with astype", operation, to_string(x.aval()),
                   ops::at());
}

/// The unsigned integers with as many bits as the dtype.
DType bits_of(DType dtype) {
  constexpr std::array kBits = {DType::kU8, DType::kU16, DType::kU32, DType::kU64};
  return kBits[static_cast<std::size_t>(std::countr_zero(size_of(dtype)))];
}

std::int64_t sign_bit(DType dtype) {
  return static_cast<std::int64_t>(std::uint64_t{1} << (8 * size_of(dtype) - 1));
}

Array word(const Array& like, std::int64_t value) {
  return ir::lax::full(like, ir::Scalar::of(value), like.dtype(), like.shape());
}

/// Scaled by a constant.
Array scaled(const std::string& name, const Operand& x, double factor) {
  return ops::elementwise(name, "", Meet::kInexact, {&x}, [factor](Tracers t) {
    return ir::lax::mul(t[0], ir::lax::full_like(t[0], factor));
  });
}

/// x over a real number. Complex numbers are divided part by part: an infinite one stays one.
Array divided_by(const Array& x, double by) {
  if (!is_complex(x.dtype())) return ir::lax::div(x, ir::lax::full_like(x, by));
  return ir::lax::complex(divided_by(ir::lax::real(x), by), divided_by(ir::lax::imag(x), by));
}

/// The absolute value as an unsigned integer: that of the least signed integer does not fit its own dtype.
Array magnitude(const Array& x) { return ir::lax::convert_element_type(abs(x), bits_of(x.dtype())); }

}  // namespace

std::pair<Array, Array> divmod(const Operand& x, const Operand& y) {
  return {floor_divide(x, y), remainder(x, y)};
}

Array fmod(const Operand& x, const Operand& y) {
  // A bool divided by false is itself, an integer divided by 0 has the remainder 0.
  const bool bools = x.type().dtype == DType::kBool && y.type().dtype == DType::kBool;
  return ops::elementwise("fmod", bools ? "bools" : "", Meet::kNumbers, {&x, &y}, [bools](Tracers t) {
    return ir::lax::rem(t[0], bools ? t[1] : ops::divisor(t[1]));
  });
}

Array fmax(const Operand& x, const Operand& y) {
  return ops::elementwise("fmax", "", Meet::kPromote, {&x, &y}, [](Tracers t) {
    return ir::lax::select(ir::lax::logical_or(ir::lax::gt(t[0], t[1]), ir::lax::ne(t[1], t[1])), t[0], t[1]);
  });
}

Array fmin(const Operand& x, const Operand& y) {
  return ops::elementwise("fmin", "", Meet::kPromote, {&x, &y}, [](Tracers t) {
    return ir::lax::select(ir::lax::logical_or(ir::lax::lt(t[0], t[1]), ir::lax::ne(t[1], t[1])), t[0], t[1]);
  });
}

Array gcd(const Operand& x, const Operand& y) {
  check_integers("gcd", x);
  check_integers("gcd", y);
  return ops::elementwise("gcd", "", Meet::kPromote, {&x, &y}, [](Tracers t) {
    return ir::lax::convert_element_type(ir::lax::gcd(magnitude(t[0]), magnitude(t[1])), t[0].dtype());
  });
}

Array lcm(const Operand& x, const Operand& y) {
  check_integers("lcm", x);
  check_integers("lcm", y);
  return ops::elementwise("lcm", "", Meet::kPromote, {&x, &y}, [](Tracers t) {
    Array a = magnitude(t[0]), b = magnitude(t[1]);
    Array divisor = ir::lax::gcd(a, b), zero = ir::lax::full_like(a, 0);
    Array none = ir::lax::eq(divisor, zero);
    Array quotient = ir::lax::div(b, ir::lax::select(none, ir::lax::full_like(a, 1), divisor));
    return ir::lax::convert_element_type(ir::lax::select(none, zero, ir::lax::mul(a, quotient)),
                                         t[0].dtype());
  });
}

Array trunc(const Operand& x) {
  return ops::elementwise("trunc", "", Meet::kPromote, {&x}, [](Tracers t) {
    if (!is_inexact(t[0].dtype())) return t[0];
    return ir::lax::select(ir::lax::lt(t[0], ir::lax::full_like(t[0], 0)), ir::lax::ceil(t[0]),
                           ir::lax::floor(t[0]));
  });
}

Array round(const Operand& x, std::int64_t decimals) {
  if (decimals == 0) return round(x);
  return ops::elementwise("round", fmt::format("{}", decimals), Meet::kPromote, {&x}, [decimals](Tracers t) {
    const Array& x = t[0];
    if (!is_inexact(x.dtype())) {
      if (decimals > 0) return x;
      fail<DTypeError>(
          "[round] {} holds whole numbers, which are not rounded to {} decimals{}; convert with "
          "astype",
          to_string(x.aval()), decimals, ops::at());
    }
    Array factor = ir::lax::full_like(x, std::pow(10.0, static_cast<double>(decimals)));
    return ir::lax::div(ir::lax::round(ir::lax::mul(x, factor)), factor);
  });
}

std::pair<Array, Array> modf(const Operand& x) {
  Array whole = ops::elementwise("modf", "", Meet::kInexact, {&x}, [](Tracers t) { return trunc(t[0]); });
  Array fraction = ops::elementwise("modf", "fraction", Meet::kInexact, {&x},
                                    [](Tracers t) { return ir::lax::sub(t[0], trunc(t[0])); });
  return {std::move(fraction), std::move(whole)};
}

Array cbrt(const Operand& x) {
  return ops::elementwise("cbrt", "", Meet::kInexact, {&x}, [](Tracers t) { return ir::lax::cbrt(t[0]); });
}

Array exp2(const Operand& x) {
  return ops::elementwise("exp2", "", Meet::kInexact, {&x}, [](Tracers t) {
    return ir::lax::exp(ir::lax::mul(t[0], ir::lax::full_like(t[0], std::numbers::ln2)));
  });
}

Array log2(const Operand& x) {
  return ops::elementwise("log2", "", Meet::kInexact, {&x},
                          [](Tracers t) { return divided_by(ir::lax::log(t[0]), std::numbers::ln2); });
}

Array log10(const Operand& x) {
  return ops::elementwise("log10", "", Meet::kInexact, {&x},
                          [](Tracers t) { return divided_by(ir::lax::log(t[0]), std::numbers::ln10); });
}

Array logaddexp2(const Operand& x, const Operand& y) {
  return ops::elementwise("logaddexp2", Meet::kInexact, ir::logaddexp2_p(), {&x, &y});
}

Array hypot(const Operand& x, const Operand& y) {
  return ops::elementwise("hypot", Meet::kInexact, ir::hypot_p(), {&x, &y});
}

Array heaviside(const Operand& x, const Operand& at_zero) {
  return ops::elementwise("heaviside", "", Meet::kInexact, {&x, &at_zero}, [](Tracers t) {
    Array zero = ir::lax::full_like(t[0], 0);
    Array step = ir::lax::select(ir::lax::lt(t[0], zero), zero, ir::lax::full_like(t[0], 1));
    Array known = ir::lax::select(ir::lax::eq(t[0], zero), t[1], step);
    return ir::lax::select(ir::lax::ne(t[0], t[0]), t[0], known);
  });
}

Array signbit(const Operand& x) {
  return ops::elementwise("signbit", "", Meet::kPromote, {&x}, [](Tracers t) {
    const DType dtype = t[0].dtype();
    if (!is_inexact(dtype)) {
      if (info(dtype).kind == DTypeKind::kSigned) return ir::lax::lt(t[0], ir::lax::full_like(t[0], 0));
      return ir::lax::full(t[0], ir::Scalar::of(false), DType::kBool, t[0].shape());
    }
    Array bits = ir::lax::bitcast_convert_type(t[0], bits_of(dtype));
    return ir::lax::ne(ir::lax::logical_and(bits, word(bits, sign_bit(dtype))), word(bits, 0));
  });
}

Array copysign(const Operand& x, const Operand& y) {
  return ops::elementwise("copysign", "", Meet::kInexact, {&x, &y}, [](Tracers t) {
    Array size = ir::lax::abs(t[0]);
    return ir::lax::select(signbit(t[1]), ir::lax::neg(size), size);
  });
}

Array nextafter(const Operand& x, const Operand& y) {
  return ops::elementwise("nextafter", "", Meet::kInexact, {&x, &y}, [](Tracers t) {
    const Array &from = t[0], &to = t[1];
    const DType dtype = from.dtype();
    Array bits = ir::lax::bitcast_convert_type(from, bits_of(dtype)), one = word(bits, 1);
    Array sign = word(bits, sign_bit(dtype)), none = word(bits, 0);
    Array towards_sign = ir::lax::logical_and(ir::lax::bitcast_convert_type(to, bits_of(dtype)), sign);
    // Numbers of one sign are ordered as their bits; from 0 the first is the smallest of the sign of y.
    Array away = ir::lax::ne(ir::lax::gt(to, from), ir::lax::ne(ir::lax::logical_and(bits, sign), none));
    Array next = ir::lax::select(away, ir::lax::add(bits, one), ir::lax::sub(bits, one));
    next = ir::lax::select(ir::lax::eq(from, ir::lax::full_like(from, 0)),
                           ir::lax::logical_or(towards_sign, one), next);
    Array moved = ir::lax::select(ir::lax::eq(from, to), to, ir::lax::bitcast_convert_type(next, dtype));
    Array unordered = ir::lax::logical_or(ir::lax::ne(from, from), ir::lax::ne(to, to));
    return ir::lax::select(unordered, ir::lax::add(from, to), moved);
  });
}

Array ldexp(const Operand& x, const Operand& exponent) {
  check_integers("ldexp", exponent);
  return ops::elementwise("ldexp", "", Meet::kInexact, {&x, &exponent}, [](Tracers t) {
    const ElementType type{t[0].dtype(), t[0].aval().weak_type};
    const bool wide = type.dtype == DType::kF64;
    const DType floats = wide ? DType::kF64 : DType::kF32, words = wide ? DType::kI64 : DType::kI32;
    const double bias = wide ? 1023 : 127, fraction = wide ? 52 : 23;
    // In two halves, for the power itself may be beyond the dtype's numbers. Each is made of its bits.
    Array whole = ir::lax::convert_element_type(t[1], words);
    whole = ir::lax::max(ir::lax::min(whole, ir::lax::full_like(whole, 2 * bias)),
                         ir::lax::full_like(whole, 2 - 2 * bias));
    Array half = ir::lax::shift_right_arithmetic(whole, ir::lax::full_like(whole, 1));
    auto power_of_two = [&](const Array& n) {
      Array bits =
          ir::lax::shift_left(ir::lax::add(n, ir::lax::full_like(n, bias)), ir::lax::full_like(n, fraction));
      return ir::lax::bitcast_convert_type(bits, floats);
    };
    Array scaled = ir::lax::mul(ir::lax::convert_element_type(t[0], floats), power_of_two(half));
    return ops::convert(ir::lax::mul(scaled, power_of_two(ir::lax::sub(whole, half))), type);
  });
}

Array float_power(const Operand& x, const Operand& y) {
  return ops::elementwise("float_power", "", Meet::kInexact, {&x, &y},
                          [](Tracers t) { return ir::lax::pow(t[0], t[1]); });
}

namespace {

/// For f32 or f64, through the integers with the same bits, of which `fraction` are the fraction.
std::pair<Array, Array> frexp_of(const Array& x) {
  const bool wide = x.dtype() == DType::kF64;
  const DType words = wide ? DType::kI64 : DType::kI32;
  const std::int64_t fraction = wide ? 52 : 23, mask = wide ? 0x7FF : 0xFF, bias = wide ? 1023 : 127;
  const Array given = ir::lax::bitcast_convert_type(x, words);
  auto number = [&](std::int64_t value) {
    return ir::lax::full(given, ir::Scalar::of(value), words, x.shape());
  };
  // A number too small for a whole fraction is its bits times the smallest number. Computed with, it would be
  // 0.
  const Array size =
      ir::lax::logical_and(given, number(std::numeric_limits<std::int64_t>::max() >> (wide ? 0 : 32)));
  const Array small = ir::lax::lt(size, number(std::int64_t{1} << fraction));
  const Array as_number =
      ir::lax::bitcast_convert_type(ir::lax::convert_element_type(size, x.dtype()), words);
  const Array sign =
      ir::lax::logical_and(given, number(std::numeric_limits<std::int64_t>::min() >> (wide ? 0 : 32)));
  const Array bits = ir::lax::select(small, ir::lax::logical_or(as_number, sign), given);
  Array exponent =
      ir::lax::logical_and(ir::lax::shift_right_arithmetic(bits, number(fraction)), number(mask));
  exponent =
      ir::lax::sub(exponent, ir::lax::select(small, number(2 * (bias - 1) + fraction), number(bias - 1)));
  const Array kept = ir::lax::logical_and(bits, number(~(mask << fraction)));
  const Array mantissa =
      ir::lax::bitcast_convert_type(ir::lax::logical_or(kept, number((bias - 1) << fraction)), x.dtype());
  const Array plain = ir::lax::logical_and(ir::lax::is_finite(x), ir::lax::ne(size, number(0)));
  return {ir::lax::select(plain, mantissa, x),
          ir::lax::convert_element_type(ir::lax::select(plain, exponent, number(0)), DType::kI32)};
}

}  // namespace

std::pair<Array, Array> frexp(const Operand& x) {
  CallSiteScope here(x.site());
  const ElementType type = to_inexact(x.type());
  if (info(type.dtype).kind == DTypeKind::kComplex)
    fail<DTypeError>("[frexp] expected real numbers, got {}{}", to_string(x.aval()), ops::at());
  const Array operands[] = {x.as_array(type)};
  const std::vector<Array> parts = run_operation("frexp", "", operands, [&](Tracers t) {
    const DType computed = type.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    auto [mantissa, exponent] = frexp_of(ir::lax::convert_element_type(ops::convert(t[0], type), computed));
    return std::vector<Array>{ir::lax::convert_element_type(mantissa, type.dtype), exponent};
  });
  return {parts[0], parts[1]};
}

Array clamp(const Operand& low, const Operand& x, const Operand& high) {
  return ops::elementwise("clamp", "", Meet::kPromote, {&low, &x, &high}, [](Tracers t) {
    const Array &low = t[0], &x = t[1], &high = t[2];
    const Array within = ir::lax::logical_and(ir::lax::gt(x, low), ir::lax::lt(x, high));
    const Array below = ir::lax::logical_and(ir::lax::gt(low, x), ir::lax::lt(low, high));
    // At an end, or of a NaN, none of the three moves the result.
    const Array end = ir::lax::stop_gradient(ir::lax::min(ir::lax::max(x, low), high));
    return ir::lax::select(within, x,
                           ir::lax::select(below, low, ir::lax::select(ir::lax::gt(x, high), high, end)));
  });
}

namespace {

Array without_nan(const Array& x, const NanToNumOptions& options) {
  const double most = finfo(x.dtype()).max;
  auto replaced = [](const Array& where, const Array& x, double by) {
    return ir::lax::select(where, ir::lax::full_like(x, by), x);
  };
  Array out = replaced(ir::lax::ne(x, x), x, options.nan);
  out = replaced(ir::lax::eq(x, ir::lax::full_like(x, kInfinity)), out, options.posinf.value_or(most));
  return replaced(ir::lax::eq(x, ir::lax::full_like(x, -kInfinity)), out, options.neginf.value_or(-most));
}

}  // namespace

Array nan_to_num(const Operand& x, NanToNumOptions options) {
  std::string key =
      fmt::format("{} {} {}", options.nan, options.posinf ? fmt::format("{}", *options.posinf) : "",
                  options.neginf ? fmt::format("{}", *options.neginf) : "");
  return ops::elementwise("nan_to_num", key, Meet::kPromote, {&x}, [options](Tracers t) {
    if (is_complex(t[0].dtype()))
      return ir::lax::complex(without_nan(ir::lax::real(t[0]), options),
                              without_nan(ir::lax::imag(t[0]), options));
    return is_floating(t[0].dtype()) ? without_nan(t[0], options) : t[0];
  });
}

Array sinc(const Operand& x) {
  return ops::elementwise("sinc", "", Meet::kInexact, {&x}, [](Tracers t) {
    const Array one = ir::lax::full_like(t[0], 1),
                angle = ir::lax::mul(t[0], ir::lax::full_like(t[0], std::numbers::pi));
    const Array size = ir::lax::abs(angle);
    // Near 0 the series, whose derivatives do not divide by small numbers.
    const Array is_near = ir::lax::lt(size, ir::lax::full_like(size, 0.5));
    const Array near = ir::lax::select(is_near, angle, ir::lax::full_like(angle, 0)),
                square = ir::lax::mul(near, near);
    Array series = one;
    for (double n : {12, 10, 8, 6, 4, 2})
      series = ir::lax::sub(
          one, ir::lax::mul(ir::lax::mul(ir::lax::full_like(square, 1 / (n * (n + 1))), square), series));
    const Array far = ir::lax::select(is_near, one, angle);
    return ir::lax::select(is_near, series, ir::lax::div(ir::lax::sin(far), far));
  });
}

Array deg2rad(const Operand& x) { return scaled("deg2rad", x, std::numbers::pi / 180); }
Array rad2deg(const Operand& x) { return scaled("rad2deg", x, 180 / std::numbers::pi); }

Array left_shift(const Operand& x, const Operand& y) {
  return ops::elementwise("left_shift", "", Meet::kNumbers, {&x, &y},
                          [](Tracers t) { return ir::lax::shift_left(t[0], t[1]); });
}

Array right_shift(const Operand& x, const Operand& y) {
  return ops::elementwise("right_shift", "", Meet::kNumbers, {&x, &y}, [](Tracers t) {
    const bool has_sign = info(t[0].dtype()).kind == DTypeKind::kSigned;
    return has_sign ? ir::lax::shift_right_arithmetic(t[0], t[1]) : ir::lax::shift_right_logical(t[0], t[1]);
  });
}

Array bitwise_count(const Operand& x) {
  if (x.type().dtype != DType::kBool) check_integers("bitwise_count", x);
  return ops::elementwise("bitwise_count", "", Meet::kPromote, {&x}, [](Tracers t) {
    if (t[0].dtype() == DType::kBool) return ir::lax::convert_element_type(t[0], DType::kU8);
    return ir::lax::convert_element_type(ir::lax::population_count(abs(t[0])), DType::kU8);
  });
}

}  // namespace lockstep
