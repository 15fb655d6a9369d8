// SPDX-License-Identifier: Apache-2.0
#include "lockstep/random/gamma.h"

#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <utility>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/nested_call.h"
#include "lockstep/ops/reduction.h"
#include "lockstep/ops/special.h"
#include "lockstep/random/gamma_derivative.h"
#include "lockstep/random/words.h"
#include "lockstep/transforms/nested_primitives.h"

namespace lockstep::random {
namespace {

using ops::Tracers;
using Carry = std::vector<Array>;

Words where_words(const Array& condition, const Words& x, const Words& y) {
  return {where(condition, x.first, y.first), where(condition, x.second, y.second)};
}

/// (x, 1 + c x) with a normal x, from each element's key; drawn again until the second is positive.
std::pair<Array, Array> draw_normal(const Words& keys, const Array& c) {
  const DType dtype = c.dtype();
  const Carry last = internal::while_of_arrays(
      "random::gamma", {keys.first, keys.second, full_like(c, 0.0), full_like(c, -1.0)},
      [](const Carry& carry) { return any(carry[3] <= 0.0); },
      [&](const Carry& carry) -> Carry {
        const Array again = carry[3] <= 0.0;
        const Words before = {carry[0], carry[1]};
        const Words next = where_words(again, child(before, 0), before);
        const Array u = uniform_of(child(child(before, 1), 0), dtype, above_minus_one(dtype), 1.0);
        const Array x = std::numbers::sqrt2 * erf_inv(u);
        return {next.first, next.second, where(again, x, carry[2]), where(again, 1.0 + x * c, carry[3])};
      });
  return {last[2], last[3]};
}

/// Marsaglia and Tsang, "A simple method for generating gamma variables", 2000: d V for a of 1 and more, with
/// V = (1 + c x)^3 accepted by comparing a uniform number. For smaller a, of a + 1, times a uniform number to
/// the power of 1 / a.
Array sample(const Array& key, const Array& a, bool log_space) {
  const DType dtype = a.dtype();
  const Words each = words_at_places(key, a.shape());
  const Array is_large = a >= 1.0;
  const Array d = where(is_large, a, a + 1.0) - 1.0 / 3;
  const Array c = (1.0 / 3) / sqrt(d);
  const Words first = child(each, 0);
  const Carry last = internal::while_of_arrays(
      "random::gamma", {first.first, first.second, full_like(a, 1.0), full_like(is_large, true)},
      [](const Carry& carry) { return any(carry[3]); },
      [&](const Carry& carry) -> Carry {
        const Words before = {carry[0], carry[1]};
        const Words next = where_words(carry[3], child(before, 0), before);
        const auto [x, v] = draw_normal(child(before, 1), c);
        const Array square = x * x, cube = (v * v) * v;
        const Array u = uniform_of(child(child(before, 2), 0), dtype);
        const Array rejected = (u >= 1.0 - 0.0331 * (square * square)) &
                               (log(u) >= square * 0.5 + d * ((1.0 - cube) + log(cube)));
        return {next.first, next.second, where(carry[3], cube, carry[2]), carry[3] & rejected};
      });
  const Array u = uniform_of(child(child(each, 1), 0), dtype);
  if (!log_space) return (d * last[2]) * where(is_large, 1.0, power(1.0 - u, 1.0 / a));
  const Array boost = log1p(-u);
  return (log(d) + log(last[2])) + where(is_large | (boost == 0.0), 0.0, boost * (1.0 / a));
}

Array derivative(const Array& a, const Array& sample, bool log_space) {
  if (!log_space) return gamma_sample_derivative(a, sample);
  const Array x = exp(sample);
  const Array positive = where(x == 0.0, finfo(a.dtype()).tiny, x);
  return gamma_sample_derivative(a, positive) / positive;
}

/// Within a trace: the sample, with its derivative in a.
Array differentiable_sample(const Array& key, const Array& a, bool log_space) {
  auto traced = [&](bool with_tangent) {
    Trace trace("random_gamma");
    const Array k = trace.input(key.aval()), x = trace.input(a.aval());
    std::vector<Array> out;
    if (with_tangent) {
      const Array tangent = trace.input(a.aval());
      out = {sample(k, x, log_space)};
      out.push_back(tangent * derivative(x, out[0], log_space));
    } else {
      out = {sample(k, x, log_space)};
    }
    return transforms::shared(trace.finish(out));
  };
  return internal::emit_nested(transforms::custom_jvp_p(),
                               ir::OpParams::of(transforms::CustomJvpParams{traced(false), traced(true), 0}),
                               {key, a})
      .front();
}

/// The shape of a result for parameters of these, checked.
Shape shape_of(const std::string& name, const Shape& shape, std::initializer_list<Operand> parameters) {
  check_shape(name, shape);
  std::vector<Aval> avals;
  for (const Operand& parameter : parameters) avals.push_back(parameter.aval());
  const Shape own = ops::broadcast_shapes("random::" + name, avals);
  if (shape.empty()) return own;
  avals = {Aval{DType::kF32, shape}, Aval{DType::kF32, own}};
  if (own.size() > shape.size() || ops::broadcast_shapes("random::" + name, avals) != shape) {
    fail<ShapeError>("[random::{}] expected parameters that broadcast to the shape {}, got {}{}", name,
                     to_string(shape), to_string(own), ops::at());
  }
  return shape;
}

/// An operation of the key and of parameters, which `compose` gets in the dtype and the shape.
template <class Compose>
Array drawn(const std::string& name, const KeyOperand& key, std::initializer_list<Operand> parameters,
            const Shape& shape, DType parameter, DType dtype, Compose compose) {
  check_key(name, key);
  std::vector<Array> operands = {key.as_array()};
  for (const Operand& each : parameters) operands.push_back(each.as_array({parameter, false}));
  return run_operation("random::" + name, fmt::format("{} {}", to_string(shape), lockstep::name(dtype)),
                       operands,
                       [&](Tracers t) {
                         std::vector<Array> ready(t.begin(), t.end());
                         for (std::size_t i = 1; i < ready.size(); ++i)
                           ready[i] = ops::conform(ready[i], {parameter, false}, shape);
                         return std::vector<Array>{compose(ready)};
                       })
      .front();
}

/// The same of a floating dtype, of broadcast parameters.
template <class Compose>
Array drawn(const std::string& name, const KeyOperand& key, std::initializer_list<Operand> parameters,
            const Shape& shape, DType dtype, Compose compose) {
  CallSiteScope here(key.site());
  check_floating(name, dtype);
  return drawn(name, key, parameters, shape_of(name, shape, parameters), dtype, dtype, compose);
}

/// Counts uniform numbers whose product is above exp(-lam): for small lam.
Array poisson_by_counting(const Array& key, const Array& lam, DType dtype, double most) {
  const Array least = -lam;
  const Carry last = internal::while_of_arrays(
      "random::poisson", {zeros({}, int32), zeros(lam.shape(), dtype), key, full_like(lam, 0.0)},
      [&](const Carry& c) { return any(c[3] > least) & (c[0] < static_cast<std::int64_t>(most)); },
      [&](const Carry& c) -> Carry {
        const auto [next, drawn] = random::split<2>(c[2]);
        const Array u = uniform(drawn, lam.shape());
        return {c[0] + 1, where(c[3] > least, c[1] + 1, c[1]), next.data(), c[3] + log(u)};
      });
  return last[1] - 1;
}

/// Hörmann, "The transformed rejection method for generating Poisson random variables", 1993: for large lam.
Array poisson_by_rejection(const Array& key, const Array& lam, DType dtype, double most) {
  const Array log_lam = log(lam);
  const Array b = 0.931 + 2.53 * sqrt(lam), a = -0.059 + 0.02483 * b;
  const Array inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), enough = 0.9277 - 3.6224 / (b - 2.0);
  const Carry last = internal::while_of_arrays(
      "random::poisson", {zeros({}, int32), full_like(lam, -1.0), zeros(lam.shape(), bool_), key},
      [&](const Carry& c) { return any(!c[2]) & (c[0] < static_cast<std::int64_t>(most)); },
      [&](const Carry& c) -> Carry {
        const auto [next, u_key, v_key] = random::split<3>(c[3]);
        const Array u = uniform(u_key, lam.shape()) - 0.5, v = uniform(v_key, lam.shape());
        const Array shifted = 0.5 - abs(u);
        const Array k = floor((2.0 * a / shifted + b) * u + lam + 0.43);
        const Array s = log(v * inverse_alpha / (a / (shifted * shifted) + b));
        const Array rejected = (k < 0.0) | ((shifted < 0.013) & (v > shifted));
        const Array accepted =
            ((shifted >= 0.07) & (v <= enough)) | (~rejected & (s <= -lam + k * log_lam - gammaln(k + 1.0)));
        return {c[0] + 1, where(accepted, k, c[1]), c[2] | accepted, next.data()};
      });
  return astype(last[1], dtype);
}

}  // namespace

Array gamma(const KeyOperand& key, const Operand& a, const Shape& shape, DType dtype) {
  return drawn("gamma", key, {a}, shape, dtype,
               [](Tracers t) { return differentiable_sample(t[0], t[1], false); });
}

Array loggamma(const KeyOperand& key, const Operand& a, const Shape& shape, DType dtype) {
  return drawn("loggamma", key, {a}, shape, dtype,
               [](Tracers t) { return differentiable_sample(t[0], t[1], true); });
}

Array beta(const KeyOperand& key, const Operand& a, const Operand& b, const Shape& shape, DType dtype) {
  return drawn("beta", key, {a, b}, shape, dtype, [](Tracers t) {
    const auto [first, second] = random::split<2>(t[0]);
    const Array log_a = differentiable_sample(first.data(), t[1], true);
    const Array log_b = differentiable_sample(second.data(), t[2], true);
    // The larger of the two is made 1, so that neither overflows.
    const Array largest = maximum(log_a, log_b);
    const Array scaled_a = exp(log_a - largest), scaled_b = exp(log_b - largest);
    return scaled_a / (scaled_a + scaled_b);
  });
}

Array dirichlet(const KeyOperand& key, const Operand& alpha, const Shape& shape, DType dtype) {
  CallSiteScope here(key.site());
  if (alpha.shape().empty()) {
    fail<ShapeError>("[random::dirichlet] expected an alpha for each number along a last dimension, got {}{}",
                     to_string(alpha.aval()), ops::at());
  }
  Shape whole = shape;
  if (!shape.empty()) whole.push_back(alpha.shape().back());
  return drawn("dirichlet", key, {alpha}, whole, dtype, [](Tracers t) {
    const Array logs = differentiable_sample(t[0], t[1], true);
    const Array powers = exp(logs - stop_gradient(max(logs, {.axis = -1, .keepdims = true})));
    return powers / sum(powers, {.axis = -1, .keepdims = true});
  });
}

Array chisquare(const KeyOperand& key, const Operand& df, const Shape& shape, DType dtype) {
  return drawn("chisquare", key, {df}, shape, dtype,
               [](Tracers t) { return exp(differentiable_sample(t[0], t[1] / 2.0, true)) * 2.0; });
}

Array t(const KeyOperand& key, const Operand& df, const Shape& shape, DType dtype) {
  return drawn("t", key, {df}, shape, dtype, [&](Tracers t) {
    const auto [first, second] = random::split<2>(t[0]);
    const Array half = t[1] / 2.0;
    return normal(first, half.shape(), dtype) *
           sqrt(half / differentiable_sample(second.data(), half, false));
  });
}

Array poisson(const KeyOperand& key, const Operand& lam, const Shape& shape, DType dtype) {
  CallSiteScope here(key.site());
  if (!is_integer(dtype)) {
    fail<DTypeError>("[random::poisson] expected an integer dtype, got {}{}", name(dtype), ops::at());
  }
  return drawn("poisson", key, {lam}, shape_of("poisson", shape, {lam}), DType::kF32, dtype, [&](Tracers t) {
    const Array rate = stop_gradient(t[1]);
    const int bits = static_cast<int>(size_of(dtype)) * 8 - (info(dtype).kind == DTypeKind::kSigned ? 1 : 0);
    // As in JAX, no more steps than the dtype counts.
    const double most = std::ldexp(1.0, std::min(bits, 31)) - 1;
    const Array is_small = isnan(rate) | (rate < 10.0);
    // The other method's results are not used: it gets numbers that it is soon done with.
    const Array counted = poisson_by_counting(t[0], where(is_small, rate, 0.0), dtype, most);
    const Array others = poisson_by_rejection(t[0], where(is_small, 1e5, rate), dtype, most);
    const Array drawn = where(is_small, counted, others);
    return where(rate == 0.0, zeros_like(drawn), drawn);
  });
}

}  // namespace lockstep::random
