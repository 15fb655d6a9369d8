// SPDX-License-Identifier: Apache-2.0
#include "lockstep/random/distributions.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/trigonometric.h"

namespace lockstep::random {
namespace {

using ops::Tracers;

/// An operation of the key and parameters, in the dtype; checks both.
template <class Compose>
Array drawn(const std::string& name, const KeyOperand& key, std::initializer_list<Operand> parameters,
            const Shape& shape, DType dtype, Compose compose) {
  CallSiteScope here(key.site());
  if (!is_floating(dtype)) {
    fail<DTypeError>("[random::{}] expected a floating dtype, got {}{}", name, lockstep::name(dtype),
                     ops::at());
  }
  std::vector<Array> operands = {key.as_array()};
  for (const Operand& parameter : parameters) operands.push_back(parameter.as_array({dtype, false}));
  return run_operation("random::" + name, fmt::format("{} {}", to_string(shape), lockstep::name(dtype)),
                       operands,
                       [&](Tracers t) {
                         std::vector<Array> converted(t.begin(), t.end());
                         for (std::size_t i = 1; i < converted.size(); ++i)
                           converted[i] = ops::convert(converted[i], {dtype, false});
                         return std::vector<Array>{compose(converted)};
                       })
      .front();
}

Array from_uniform(const Array& u) { return -log1p(-u); }

}  // namespace

Array exponential(const KeyOperand& key, const Shape& shape, DType dtype) {
  return drawn("exponential", key, {}, shape, dtype,
               [&](Tracers t) { return from_uniform(uniform(t[0], shape, dtype)); });
}

Array laplace(const KeyOperand& key, const Shape& shape, DType dtype) {
  return drawn("laplace", key, {}, shape, dtype, [&](Tracers t) {
    Array u = uniform(t[0], shape, dtype, -1 + finfo(dtype).eps / 2, 1.0);
    return sign(u) * log1p(-abs(u));
  });
}

Array logistic(const KeyOperand& key, const Shape& shape, DType dtype) {
  return drawn("logistic", key, {}, shape, dtype, [&](Tracers t) {
    Array u = uniform(t[0], shape, dtype, finfo(dtype).tiny, 1.0);
    return log(u / (1.0 - u));
  });
}

Array cauchy(const KeyOperand& key, const Shape& shape, DType dtype) {
  return drawn("cauchy", key, {}, shape, dtype, [&](Tracers t) {
    Array u = uniform(t[0], shape, dtype, finfo(dtype).eps, 1.0);
    return tan(std::numbers::pi * (u - 0.5));
  });
}

Array pareto(const KeyOperand& key, const Operand& b, const Shape& shape, DType dtype) {
  const Shape whole = shape.empty() ? b.shape() : shape;
  return drawn("pareto", key, {b}, whole, dtype,
               [&](Tracers t) { return exp(exponential(t[0], whole, dtype) / t[1]); });
}

Array weibull_min(const KeyOperand& key, const Operand& scale, const Operand& concentration,
                  const Shape& shape, DType dtype) {
  return drawn("weibull_min", key, {scale, concentration}, shape, dtype, [&](Tracers t) {
    return power(from_uniform(uniform(t[0], shape, dtype)), 1.0 / t[2]) * t[1];
  });
}

Array lognormal(const KeyOperand& key, const Operand& sigma, const Shape& shape, DType dtype) {
  const Shape whole = shape.empty() ? sigma.shape() : shape;
  return drawn("lognormal", key, {sigma}, whole, dtype,
               [&](Tracers t) { return exp(normal(t[0], whole, dtype) * t[1]); });
}

Array rademacher(const KeyOperand& key, const Shape& shape, DType dtype) {
  return 2 * astype(bernoulli(key, 0.5, shape), dtype) - 1;
}

Array dropout(const KeyOperand& key, const Operand& x, double rate) {
  CallSiteScope here(key.site());
  if (!(rate >= 0 && rate < 1)) {
    fail("[random::dropout] expected a rate in [0, 1), got {}{}", rate, ops::at());
  }
  if (rate == 0) return x.as_array();
  Array kept = bernoulli(key, 1 - rate, x.shape());
  return where(kept, x.as_array() / (1 - rate), 0.0);
}

}  // namespace lockstep::random
