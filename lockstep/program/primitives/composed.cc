// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <numbers>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/elementwise_family.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/special.h"

// Elementwise functions that are composed of others, with a derivative that their composition would not have
// at poles and kinks.
namespace lockstep::ir {
namespace {

using rules::binary_jvp;
using rules::elementwise;
using rules::Takes;
using rules::unary_jvp;
using Values = std::vector<Value>;
using Compose = std::function<Value(const Values& operands, const OpParams& params)>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Primitive composed(rules::Elementwise family, Compose compose) {
  const std::string name = family.name;
  Primitive p = elementwise(std::move(family));
  p.lower = [name, compose = std::move(compose)](Lowering& out, const Equation& e) {
    return out.composed(e, name, [&](const Values& operands) { return compose(operands, e.params); });
  };
  return p;
}

/// x^n for n > 0, by squaring.
Value multiplied_out(Value x, std::int64_t n) {
  std::optional<Value> result;
  for (;; x = lax::mul(x, x)) {
    if (n & 1) result = result ? lax::mul(*result, x) : x;
    n >>= 1;
    if (n == 0) return *result;
  }
}

Value scaled_by(const Value& x, double factor) {
  return factor == 1 ? x : lax::mul(x, lax::full_like(x, factor));
}

/// x as a number from -bound to bound, less whole multiples of twice the bound.
Value wrapped(const Value& x, double bound) {
  const Value half = lax::full_like(x, bound), turn = lax::full_like(x, 2 * bound);
  const Value rest = lax::rem(lax::add(x, half), turn);
  const Value below = lax::lt(rest, lax::full_like(x, 0));
  return lax::sub(lax::select(below, lax::add(rest, turn), rest), half);
}

/// log(exp(x) + exp(y)) / log(base), of powers of `base`. Of complex numbers the larger one, by its real part
/// and then by its imaginary one, is taken out of the sum; the imaginary part of the result is within ±pi.
Value log_of_sum(const Value& x, const Value& y, double log_of_base) {
  const Value most = lax::max(x, y);
  if (is_complex(x.aval().dtype)) {
    const Value least = lax::select(lax::gt(x, y), y, x);
    const Value power = lax::exp(scaled_by(lax::sub(least, most), log_of_base));
    const Value sum = lax::add(most, scaled_by(lax::log1p(power), 1 / log_of_base));
    const Value size = lax::real(most);
    const Value result =
        lax::complex(lax::real(sum), wrapped(lax::imag(sum), std::numbers::pi / log_of_base));
    // Two infinities of one sign, whose difference is NaN.
    const Value infinite = lax::eq(lax::abs(size), lax::full_like(size, kInfinity));
    return lax::select(lax::logical_and(infinite, lax::eq(lax::real(least), size)), most, result);
  }
  const Value difference = lax::sub(x, y);
  const Value power = lax::exp(scaled_by(lax::neg(lax::abs(difference)), log_of_base));
  const Value sum = lax::add(most, scaled_by(lax::log1p(power), 1 / log_of_base));
  // Two infinities of one sign, or a NaN.
  return lax::select(lax::ne(difference, difference), lax::add(x, y), sum);
}

/// The derivative by x is exp(x) of the sum: a sigmoid of the difference. An infinity has the whole, and of
/// two of one sign each has half.
Primitive log_of_sum_primitive(const std::string& name, const Primitive& (*self)(), double log_of_base) {
  const auto share = [log_of_base](const Value& t, const Value& x, const Value& y, const Value& sum) {
    if (is_complex(x.aval().dtype)) {
      const Value size = lax::real(sum), of_x = lax::eq(lax::real(x), size),
                  of_y = lax::eq(lax::real(y), size);
      const Value infinite = lax::eq(lax::abs(size), lax::full_like(size, kInfinity));
      const Value difference = lax::select(infinite, lax::full_like(x, 0), lax::sub(x, sum));
      const Value whole = lax::select(of_y, lax::full_like(x, 0.5), lax::full_like(x, 1));
      const Value limit = lax::select(of_x, whole, lax::full_like(x, 0));
      return lax::mul(t, lax::select(infinite, limit, lax::exp(scaled_by(difference, log_of_base))));
    }
    const Value same = lax::logical_and(lax::eq(x, y), lax::logical_not(lax::is_finite(x)));
    const Value difference = lax::select(same, lax::full_like(x, 0), lax::sub(x, y));
    return lax::mul(t, lax::logistic(scaled_by(difference, log_of_base)));
  };
  const auto by = [share](std::size_t i) {
    return [share, i](const Value& t, const JvpCall& c) {
      return share(t, c.inputs[i], c.inputs[1 - i], c.outputs[0]);
    };
  };
  return composed(
      {name, "", Takes::kInexact, self, binary_jvp(by(0), by(1))},
      [log_of_base](const Values& v, const OpParams&) { return log_of_sum(v[0], v[1], log_of_base); });
}

/// x * log(y), and 0 where x is 0, unless y is NaN.
Value times(const Value& x, const Value& log_of_y, const Value& y) {
  const Value used = lax::logical_or(lax::ne(x, lax::full_like(x, 0)), lax::ne(y, y));
  return lax::select(used, lax::mul(x, log_of_y), lax::full_like(x, 0));
}

/// Stirling's series for lgamma(x) from x = 16 on, without (x - 1/2) log(x) - x + log(2 pi) / 2.
Value stirling_rest(const Value& x) {
  const Value inverse = lax::div(lax::full_like(x, 1), x), squared = lax::mul(inverse, inverse);
  Value sum = lax::full_like(x, -1.0 / 1680);
  for (double term : {1.0 / 1260, -1.0 / 360, 1.0 / 12})
    sum = lax::add(lax::mul(sum, squared), lax::full_like(x, term));
  return lax::mul(sum, inverse);
}

/// lgamma(a) + lgamma(b) - lgamma(a + b). Where the larger operand is large, the last two nearly cancel: by
/// Stirling's series their difference is written without them.
Value log_of_beta(const Value& x, const Value& y) {
  const Value a = lax::min(x, y), b = lax::max(x, y), sum = lax::add(a, b);
  const Value limit = lax::full_like(b, 16), one = lax::full_like(b, 1), half = lax::full_like(b, 0.5);
  const Value plain = lax::sub(lax::add(lax::lgamma(a), lax::lgamma(b)), lax::lgamma(sum));
  const Value is_large = lax::logical_and(lax::ge(b, limit), lax::is_finite(b));
  const Value is_used = lax::logical_and(is_large, lax::gt(sum, half));
  const Value large = lax::select(is_used, b, limit), small = lax::select(is_used, a, one);
  // (b - 1/2) log(1 + a / b), of which a is left where a / b is too small a number.
  const Value ratio = lax::div(small, large), tiny = lax::lt(lax::abs(ratio), lax::full_like(b, 1e-30));
  const Value product = lax::mul(lax::sub(large, half), lax::log1p(ratio));
  const Value first = lax::select(tiny, small, product), whole = lax::add(small, large);
  const Value rest = lax::sub(stirling_rest(large), stirling_rest(lax::max(whole, one)));
  const Value by_series = lax::add(
      lax::sub(lax::add(lax::lgamma(small), small), lax::add(first, lax::mul(small, lax::log(whole)))), rest);
  return lax::select(is_used, by_series, plain);
}

/// The number above which the normal distribution has p, for 0 < p < 0.2: a first guess, and two of Halley's
/// steps. Where the distribution's own numbers would be too small, its asymptotic series is exact, and is
/// solved for x.
Value upper_quantile(const Value& p) {
  const auto number = [&](double value) { return lax::full_like(p, value); };
  const double half_log_of_two_pi = std::log(2 * std::numbers::pi) / 2;
  const Value log_p = lax::log(p), z = lax::sqrt(lax::mul(number(-2), log_p));
  const Value first = lax::sub(z, lax::div(lax::add(lax::log(z), number(half_log_of_two_pi)), z));
  Value x = first, far = first;
  for (int step = 0; step < 2; ++step) {
    const Value above = lax::mul(number(0.5), lax::erfc(lax::mul(x, number(1 / std::numbers::sqrt2))));
    const Value density = lax::mul(number(1 / std::sqrt(2 * std::numbers::pi)),
                                   lax::exp(lax::mul(number(-0.5), lax::mul(x, x))));
    const Value off = lax::div(lax::sub(above, p), density);
    x = lax::add(x, lax::div(lax::mul(number(2), off), lax::sub(number(2), lax::mul(off, x))));
  }
  for (int step = 0; step < 4; ++step) {
    const Value inverse = lax::div(number(1), lax::mul(far, far));
    Value series = number(0);
    for (double term : {10395, -945, 105, -15, 3, -1})
      series = lax::mul(inverse, lax::add(series, number(term)));
    const Value rest = lax::sub(lax::log1p(series), lax::add(lax::log(far), number(half_log_of_two_pi)));
    far = lax::sqrt(lax::mul(number(2), lax::sub(rest, log_p)));
  }
  return lax::select(lax::lt(p, number(p.aval().dtype == DType::kF64 ? 1e-300 : 1e-35)), far, x);
}

/// The inverse of the normal distribution's function: around 1/2 by the inverse of erf, which cancels at the
/// ends.
Value normal_quantile(const Value& given) {
  const DType dtype = given.aval().dtype;
  const Value p = size_of(dtype) < 4 ? lax::convert_element_type(given, DType::kF32) : given;
  const auto number = [&](double value) { return lax::full_like(p, value); };
  const Value complement = lax::sub(number(1), p), low = lax::min(p, complement);
  const Value is_end = lax::logical_and(lax::lt(low, number(0.2)), lax::gt(low, number(0)));
  const Value distance = upper_quantile(lax::select(is_end, low, number(0.1)));
  const Value end = lax::select(lax::lt(p, complement), lax::neg(distance), distance);
  const Value twice = lax::sub(lax::add(p, p), number(1));
  const Value middle = lax::mul(number(std::numbers::sqrt2), lax::erf_inv(twice));
  const Value is_outside = lax::lt(low, number(0));  // which the sum of 1 with a small number hides
  const Value within = lax::select(is_end, end, middle);
  const Value result = lax::select(is_outside, number(std::numeric_limits<double>::quiet_NaN()), within);
  return size_of(dtype) < 4 ? lax::convert_element_type(result, dtype) : result;
}

}  // namespace

const Primitive& betaln_p() {
  const auto slope = [](const Value& t, const Value& x, const Value& y) {
    return lax::mul(t, lax::sub(lax::polygamma(0, x), lax::polygamma(0, lax::add(x, y))));
  };
  static const Primitive p = composed(
      {"betaln", "", Takes::kFloat, betaln_p,
       binary_jvp([slope](const Value& t, const JvpCall& c) { return slope(t, c.inputs[0], c.inputs[1]); },
                  [slope](const Value& t, const JvpCall& c) { return slope(t, c.inputs[1], c.inputs[0]); })},
      [](const Values& v, const OpParams&) { return log_of_beta(v[0], v[1]); });
  return p;
}

/// The derivative by x is x / hypot(x, y): a half where both are 0, and 0 where either is infinite, as in
/// JAX. It is computed of parts of the larger one, whose squares are numbers.
const Primitive& hypot_p() {
  const auto slope = [](const Value& t, const Value& x, const Value& y) {
    const auto number = [&](double value) { return lax::full_like(x, value); };
    const Value a = lax::abs(x), b = lax::abs(y), high = lax::stop_gradient(lax::max(a, b));
    const Value infinite = lax::logical_or(lax::eq(a, number(kInfinity)), lax::eq(b, number(kInfinity)));
    const Value zero = lax::eq(high, number(0)), none = lax::logical_or(zero, infinite);
    const auto part = [&](const Value& of) {
      return lax::div(lax::select(none, number(1), of), lax::select(none, number(1), high));
    };
    const Value u = part(x), v = part(y);
    const Value ratio = lax::div(u, lax::sqrt(lax::add(lax::mul(u, u), lax::mul(v, v))));
    return lax::mul(t, lax::select(infinite, number(0), lax::select(zero, number(0.5), ratio)));
  };
  static const Primitive p = composed(
      {"hypot", "", Takes::kFloat, hypot_p,
       binary_jvp([slope](const Value& t, const JvpCall& c) { return slope(t, c.inputs[0], c.inputs[1]); },
                  [slope](const Value& t, const JvpCall& c) { return slope(t, c.inputs[1], c.inputs[0]); })},
      [](const Values& v, const OpParams&) {
        const Value a = lax::abs(v[0]), b = lax::abs(v[1]), high = lax::max(a, b), low = lax::min(a, b);
        const Value infinity = lax::full_like(a, kInfinity), one = lax::full_like(a, 1);
        const Value zero = lax::eq(high, lax::full_like(a, 0));
        const Value ratio = lax::div(low, lax::select(zero, one, high));
        const Value size = lax::mul(high, lax::sqrt(lax::add(one, lax::mul(ratio, ratio))));
        // Infinite with an infinity, whatever the other is.
        return lax::select(lax::logical_or(lax::eq(a, infinity), lax::eq(b, infinity)), infinity,
                           lax::select(zero, high, size));
      });
  return p;
}

const Primitive& ndtri_p() {
  static const Primitive p = composed(
      {"ndtri", "", Takes::kFloat, ndtri_p, unary_jvp([](const Value& t, const Value&, const Value& y) {
         const Value exponent = lax::mul(lax::full_like(y, 0.5), lax::mul(y, y));
         return lax::mul(t, lax::mul(lax::full_like(y, std::sqrt(2 * std::numbers::pi)), lax::exp(exponent)));
       })},
      [](const Values& v, const OpParams&) { return normal_quantile(v[0]); });
  return p;
}

const Primitive& integer_pow_p() {
  static const Primitive p = [] {
    Primitive p = composed({"integer_pow", "", Takes::kNumber, integer_pow_p,
                            [](const JvpCall& c) -> Tangents {
                              const std::int64_t n = c.params.as<IntegerPowParams>().n;
                              if (!c.tangents[0] || n == 0) return {std::nullopt};
                              const Value &x = c.inputs[0], &t = *c.tangents[0];
                              if (n == 1) return {t};
                              const Value factor = lax::full_like(x, static_cast<double>(n));
                              return {lax::mul(t, lax::mul(factor, n == 2 ? x : lax::integer_pow(x, n - 1)))};
                            }},
                           [](const Values& v, const OpParams& params) {
                             const std::int64_t n = params.as<IntegerPowParams>().n;
                             if (n == 0) return lax::full_like(v[0], 1);
                             if (n > 0) return multiplied_out(v[0], n);
                             return lax::div(lax::full_like(v[0], 1), multiplied_out(v[0], -n));
                           });
    p.shape = [shape = p.shape](std::span<const Aval> inputs, const OpParams& params) {
      if (params.as<IntegerPowParams>().n < 0 && !is_inexact(inputs[0].dtype))
        fail<DTypeError>("expected a power of 0 or more of whole numbers, got {}; convert with astype",
                         params.as<IntegerPowParams>().n);
      return shape(inputs, params);
    };
    return p;
  }();
  return p;
}

const Primitive& logaddexp_p() {
  static const Primitive p = log_of_sum_primitive("logaddexp", logaddexp_p, 1);
  return p;
}

const Primitive& logaddexp2_p() {
  static const Primitive p = log_of_sum_primitive("logaddexp2", logaddexp2_p, std::numbers::ln2);
  return p;
}

const Primitive& xlogy_p() {
  static const Primitive p = composed(
      {"xlogy", "", Takes::kInexact, xlogy_p,
       binary_jvp(
           [](const Value& t, const JvpCall& c) { return lax::mul(t, lax::log(c.inputs[1])); },
           [](const Value& t, const JvpCall& c) { return lax::div(lax::mul(t, c.inputs[0]), c.inputs[1]); })},
      [](const Values& v, const OpParams&) { return times(v[0], lax::log(v[1]), v[1]); });
  return p;
}

const Primitive& xlog1py_p() {
  static const Primitive p = composed(
      {"xlog1py", "", Takes::kInexact, xlog1py_p,
       binary_jvp([](const Value& t, const JvpCall& c) { return lax::mul(t, lax::log1p(c.inputs[1])); },
                  [](const Value& t, const JvpCall& c) {
                    return lax::div(lax::mul(t, c.inputs[0]),
                                    lax::add(lax::full_like(c.inputs[1], 1), c.inputs[1]));
                  })},
      [](const Values& v, const OpParams&) { return times(v[0], lax::log1p(v[1]), v[1]); });
  return p;
}

const Primitive& entr_p() {
  static const Primitive p = composed(
      {"entr", "", Takes::kFloat, entr_p, unary_jvp([](const Value& t, const Value& x, const Value&) {
         const Value slope = lax::neg(lax::add(lax::log(x), lax::full_like(x, 1))),
                     zero = lax::full_like(x, 0);
         return lax::select(lax::lt(x, zero), zero, lax::mul(t, slope));
       })},
      [](const Values& v, const OpParams&) {
        const Value& x = v[0];
        const Value below = lax::lt(x, lax::full_like(x, 0));
        const Value infinity = lax::full_like(x, -kInfinity);
        return lax::select(below, infinity, lax::neg(times(x, lax::log(x), x)));
      });
  return p;
}

const Primitive& logit_p() {
  static const Primitive p = composed(
      {"logit", "", Takes::kInexact, logit_p, unary_jvp([](const Value& t, const Value& x, const Value&) {
         return lax::div(t, lax::mul(x, lax::sub(lax::full_like(x, 1), x)));
       })},
      [](const Values& v, const OpParams&) {
        return lax::log(lax::div(v[0], lax::sub(lax::full_like(v[0], 1), v[0])));
      });
  return p;
}

}  // namespace lockstep::ir
