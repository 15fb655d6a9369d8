// SPDX-License-Identifier: Apache-2.0
#include "lockstep/random/binomial.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/indexing.h"
#include "lockstep/ops/nested_call.h"
#include "lockstep/ops/reduction.h"
#include "lockstep/random/words.h"

namespace lockstep::random {
namespace {

using ops::Tracers;
using Carry = std::vector<Array>;

/// log(k!) less Stirling's (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2: a table, then a series.
Array stirling_tail(const Array& k) {
  std::vector<float> first;
  for (int i = 0; i < 10; ++i) {
    const double n = i + 1;
    first.push_back(static_cast<float>(std::lgamma(n) - (n - 0.5) * std::log(n) + n -
                                       0.5 * std::log(2 * std::numbers::pi)));
  }
  const Array small = clip(k, 0.0, 9.0), large = square(k + 1.0);
  const Array series = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / large) / large) / (k + 1.0);
  const Array table = take(astype(lockstep::array(first), k.dtype()), astype(floor(small), DType::kI32), 0);
  return where(k <= 9.0, table, series);
}

/// How many geometric numbers add up to n at most: for small n p.
Array by_geometric_numbers(const Array& key, const Array& n, const Array& p) {
  const Array log_failure = log1p(-p);
  const Carry last = internal::while_of_arrays(
      "random::binomial", {zeros_like(p), zeros_like(p), key}, [&](const Carry& c) { return any(c[1] <= n); },
      [&](const Carry& c) -> Carry {
        const auto [drawn, next] = random::split<2>(c[2]);
        const Array u = uniform(drawn, p.shape(), p.dtype());
        return {where(c[1] <= n, c[0] + 1.0, c[0]), c[1] + ceil(log(u) / log_failure), next.data()};
      });
  return last[0] - 1.0;
}

/// Transformed rejection: for large n p.
Array by_rejection(const Array& key, const Array& n, const Array& p) {
  const Array deviation = sqrt(n * p * (1.0 - p));
  const Array b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p, c = n * p + 0.5;
  const Array enough = 0.92 - 4.2 / b, odds = p / (1.0 - p), alpha = (2.83 + 5.1 / b) * deviation;
  const Array mode = floor((n + 1.0) * p);
  const Carry last = internal::while_of_arrays(
      "random::binomial", {full_like(p, -1.0), zeros(p.shape(), bool_), key},
      [&](const Carry& carry) { return any(!carry[1]); },
      [&](const Carry& carry) -> Carry {
        const auto [next, u_key, v_key] = random::split<3>(carry[2]);
        const Array u = uniform(u_key, p.shape(), p.dtype()) - 0.5, v = uniform(v_key, p.shape(), p.dtype());
        const Array shifted = 0.5 - abs(u);
        const Array k = floor((2.0 * a / shifted + b) * u + c);
        const Array rejected = (k < 0.0) | (k > n);
        const Array size = log(v * alpha / (a / (shifted * shifted) + b));
        const Array most = (mode + 0.5) * log((mode + 1.0) / (odds * (n - mode + 1.0))) +
                           (n + 1.0) * log((n - mode + 1.0) / (n - k + 1.0)) +
                           (k + 0.5) * log(odds * (n - k + 1.0) / (k + 1.0)) + stirling_tail(mode) +
                           stirling_tail(n - mode) - stirling_tail(k) - stirling_tail(n - k);
        const Array accepted = ((shifted >= 0.07) & (v <= enough)) | (~rejected & (size <= most));
        return {where(accepted, k, carry[0]), carry[1] | accepted, next.data()};
      });
  return last[0];
}

Array traced(const Array& key, const Array& given, const Array& p, DType dtype) {
  const Array is_small = p < 0.5;
  const Array wrong_p = isnan(p) | (p < 0.0), wrong_n = isnan(given) | (given < 0.0);
  const Array endless = isinf(given);
  Array q = where(is_small, p, 1.0 - p);
  const Array wrong_q = isnan(q) | (q < 0.0);
  q = where(wrong_q, 0.01, q);
  const Array by_counting = wrong_n | (given * q <= 10.0), n = floor(given);
  // A method's results for the other's numbers are not used: it gets numbers that it is soon done with.
  const Array counted = by_geometric_numbers(key, where(by_counting, where(wrong_n, 0.0, n), 0.0), q);
  const Array others =
      by_rejection(key, where(by_counting | endless, 1e4, n), where(by_counting | endless, 0.5, q));
  Array drawn = where(by_counting, counted, others);
  const Array invalid = wrong_q | wrong_p | wrong_n;
  drawn = where(invalid, std::numeric_limits<double>::quiet_NaN(), drawn);
  drawn = where(endless & ~invalid, std::numeric_limits<double>::infinity(), drawn);
  return astype(where(is_small | invalid | endless, drawn, n - drawn), dtype);
}

}  // namespace

Array binomial(const KeyOperand& key, const Operand& n, const Operand& p, const Shape& shape, DType dtype) {
  CallSiteScope here(key.site());
  check_key("binomial", key);
  check_floating("binomial", dtype);
  check_shape("binomial", shape);
  std::vector<Aval> avals = {n.aval(), p.aval()};
  Shape whole = ops::broadcast_shapes("random::binomial", avals);
  if (!shape.empty()) {
    avals.push_back({dtype, shape, false, {}});
    if (ops::broadcast_shapes("random::binomial", avals) != shape) {
      fail<ShapeError>("[random::binomial] expected a shape that {} broadcasts to, got {}{}",
                       to_string(whole), to_string(shape), ops::at());
    }
    whole = shape;
  }
  const ElementType type{to_inexact(p.type()).dtype, false};
  return ops::run("random::binomial", fmt::format("{} {}", to_string(whole), name(dtype)),
                  {key.as_array(), n.as_array(type), p.as_array(type)}, [&](Tracers t) {
                    return traced(t[0], stop_gradient(ops::conform(t[1], type, whole)),
                                  stop_gradient(ops::conform(t[2], type, whole)), dtype);
                  });
}

}  // namespace lockstep::random
