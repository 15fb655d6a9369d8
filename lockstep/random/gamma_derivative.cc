// SPDX-License-Identifier: Apache-2.0
#include "lockstep/random/gamma_derivative.h"

#include <cmath>
#include <limits>
#include <vector>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/nested_call.h"
#include "lockstep/ops/reduction.h"
#include "lockstep/ops/special.h"

namespace lockstep::random {
namespace {

using Carry = std::vector<Array>;

Array like(const Array& x, double value) { return full_like(x, value); }

/// Elements whose flag, the carry's first array, is set get `next`; the others keep their values.
Carry advanced(const Carry& carry, const Carry& next) {
  Carry out = {next[0]};
  for (std::size_t i = 1; i < carry.size(); ++i) out.push_back(where(carry[0], next[i], carry[i]));
  return out;
}

/// The terms of the power series c_r = x^r / ((a + 1) ... (a + r)), and their derivatives in a, until these
/// no longer change their sum.
Array by_series(const Array& a, const Array& x, const Array& enabled, double epsilon) {
  enum { kEnabled, kR, kTerm, kSum, kTermDa, kSumDa };
  const Carry last = internal::while_of_arrays(
      "random::gamma", {enabled, a, like(a, 1), like(a, 1), like(a, 0), like(a, 0)},
      [](const Carry& c) { return any(c[kEnabled]); },
      [&](const Carry& c) {
        const Array r = c[kR] + 1.0;
        const Array term_da = c[kTermDa] * (x / r) - (c[kTerm] * x) / (r * r);
        const Array sum_da = c[kSumDa] + term_da;
        const Array term = c[kTerm] * (x / r);
        return advanced(
            c, {c[kEnabled] & (abs(term_da / sum_da) > epsilon), r, term, c[kSum] + term, term_da, sum_da});
      });
  const Array log_da = log(x) - digamma(a + 1.0);
  return -(last[kSumDa] + last[kSum] * log_da) * x / a;
}

/// The convergents p / q of the continued fraction of 1 - P, and their derivatives in a, until these no
/// longer change, 2000 at most.
Array by_fraction(const Array& a, const Array& x, const Array& enabled, double epsilon) {
  // Values for the last convergent and the one before it; "Da" is a derivative.
  enum { kEnabled, kAns, kY, kZ, kP1, kQ1, kP2, kQ2, kP2Da, kQ2Da, kP1Da, kQ1Da, kAnsDa, kCount };
  const Array y = 1.0 - a, z = x + y + 1.0;
  const Array p = x + 1.0, q = z * x, ans = p / q;
  const Array q_da = -x;
  Carry initial = {enabled,
                   ans,
                   y,
                   z,
                   p,
                   q,
                   like(x, 1),
                   x,
                   like(x, 0),
                   like(x, 0),
                   like(x, 0),
                   q_da,
                   (like(x, 0) - ans * q_da) / q};
  initial.push_back(zeros({}, x.dtype()));
  const Carry last = internal::while_of_arrays(
      "random::gamma", initial, [](const Carry& c) { return (c[kCount] < 2000.0) & any(c[kEnabled]); },
      [&](const Carry& c) {
        const Array count = c[kCount] + 1.0;
        const Array y = c[kY] + 1.0, z = c[kZ] + 2.0, yc = y * count;
        const Array p = c[kP1] * z - c[kP2] * yc, q = c[kQ1] * z - c[kQ2] * yc;
        const Array is_number = q != 0.0;
        const Array ans = where(is_number, p / q, c[kAns]);
        const Array p_da = c[kP1Da] * z - c[kP1] - c[kP2Da] * yc + c[kP2] * count;
        const Array q_da = c[kQ1Da] * z - c[kQ1] - c[kQ2Da] * yc + c[kQ2] * count;
        const Array ans_da = where(is_number, (p_da - ans * q_da) / q, c[kAnsDa]);
        const Array change = where(is_number, abs(ans_da - c[kAnsDa]), 1.0);
        const Array large = abs(p) > 1 / epsilon;
        auto scaled = [&](const Array& value) { return where(large, value * epsilon, value); };
        Carry next = advanced(
            Carry(c.begin(), c.begin() + kCount),
            {c[kEnabled] & (change > epsilon), ans, y, z, scaled(p), scaled(q), scaled(c[kP1]),
             scaled(c[kQ1]), scaled(c[kP1Da]), scaled(c[kQ1Da]), scaled(p_da), scaled(q_da), ans_da});
        next.push_back(count);
        return next;
      });
  return -(last[kAnsDa] + last[kAns] * (log(x) - digamma(a))) * x;
}

}  // namespace

Array gamma_sample_derivative(const Array& given_a, const Array& sample) {
  const DType dtype = given_a.dtype();
  const DType computed = at_least_f32(dtype);
  const Array a = astype(given_a, computed), x = astype(sample, computed);
  const bool is_double = computed == DType::kF64;
  const double epsilon = std::ldexp(1.0, is_double ? -52 : -23);
  const double most = is_double ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  const Array is_nan = isnan(a) | isnan(x), is_zero = x == 0.0, outside = (x < 0.0) | (a <= 0.0);
  const Array underflow = a * log(x) - x - gammaln(a) < -std::log(most);
  const Array enabled = !(is_zero | outside | underflow | is_nan);
  const Array large = (x > 1.0) & (x > a);
  Array out =
      where(large, -by_fraction(a, x, enabled & large, epsilon), by_series(a, x, enabled & !large, epsilon));
  out = where(is_zero, 0.0, out);
  return astype(where(outside | is_nan, std::numeric_limits<double>::quiet_NaN(), out), dtype);
}

}  // namespace lockstep::random
