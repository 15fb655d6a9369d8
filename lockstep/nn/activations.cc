// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/activations.h"

#include <fmt/ranges.h>

#include <cmath>
#include <numbers>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/shape.h"
#include "lockstep/ops/special.h"

namespace lockstep::nn {
namespace {

using ops::Meet;
using ops::Tracers;

std::string key_of(const Axes& axis) {
  return axis.axes() ? fmt::format("axes=[{}]", fmt::join(*axis.axes(), ",")) : "axes=all";
}

/// x minus its maximum along the axes, which counts as constant in derivatives.
Array shifted(const Array& x, const Axes& axis) {
  return x - max(stop_gradient(x), {.axis = axis, .keepdims = true});
}

}  // namespace

Array relu(const Operand& x) {
  // Below 0 and of NaN the derivative is 0, the value of NaN is NaN.
  return ops::elementwise("relu", "", Meet::kPromote, {&x},
                          [](Tracers t) { return where(t[0] > 0, t[0], maximum(stop_gradient(t[0]), 0)); });
}

Array softplus(const Operand& x) {
  return ops::elementwise("softplus", "", Meet::kInexact, {&x},
                          [](Tracers t) { return logaddexp(t[0], 0.0); });
}

Array silu(const Operand& x) {
  return ops::elementwise("silu", "", Meet::kInexact, {&x}, [](Tracers t) { return t[0] * sigmoid(t[0]); });
}

Array leaky_relu(const Operand& x, double negative_slope) {
  return ops::elementwise("leaky_relu", fmt::format("{}", negative_slope), Meet::kInexact, {&x},
                          [&](Tracers t) { return where(t[0] >= 0, t[0], negative_slope * t[0]); });
}

Array elu(const Operand& x, double alpha) {
  return ops::elementwise("elu", fmt::format("{}", alpha), Meet::kInexact, {&x}, [&](Tracers t) {
    // The exp of values that are not selected must not overflow, because its derivative would be NaN.
    Array below = where(t[0] > 0, 0, t[0]);
    return where(t[0] > 0, t[0], alpha * expm1(below));
  });
}

Array gelu(const Operand& x, bool approximate) {
  return ops::elementwise("gelu", approximate ? "" : "exact", Meet::kInexact, {&x}, [&](Tracers t) {
    if (!approximate) return 0.5 * t[0] * erfc(-t[0] * std::numbers::sqrt2 * 0.5);
    const double scale = std::sqrt(2 * std::numbers::inv_pi);
    Array inner = scale * (t[0] + 0.044715 * power(t[0], 3));
    return t[0] * (0.5 * (1.0 + tanh(inner)));
  });
}

Array relu6(const Operand& x) {
  return ops::elementwise("relu6", "", Meet::kInexact, {&x},
                          [](Tracers t) { return where(t[0] >= 6, 6, relu(t[0])); });
}

Array selu(const Operand& x) {
  return ops::elementwise("selu", "", Meet::kInexact, {&x}, [](Tracers t) {
    return 1.0507009873554804934193349852946 * elu(t[0], 1.6732632423543772848170429916717);
  });
}

Array celu(const Operand& x, double alpha) {
  return ops::elementwise("celu", fmt::format("{}", alpha), Meet::kInexact, {&x}, [&](Tracers t) {
    return maximum(t[0], 0.0) + alpha * expm1(minimum(t[0], 0.0) / alpha);
  });
}

Array soft_sign(const Operand& x) {
  return ops::elementwise("soft_sign", "", Meet::kInexact, {&x},
                          [](Tracers t) { return t[0] / (abs(t[0]) + 1.0); });
}

Array log_sigmoid(const Operand& x) {
  return ops::elementwise("log_sigmoid", "", Meet::kInexact, {&x},
                          [](Tracers t) { return -softplus(-t[0]); });
}

Array hard_tanh(const Operand& x) {
  return ops::elementwise("hard_tanh", "", Meet::kPromote, {&x}, [](Tracers t) {
    const bool has_sign = info(t[0].dtype()).kind != DTypeKind::kUnsigned;
    return where(t[0] > 1, 1, has_sign ? where(t[0] < -1, -1, t[0]) : t[0]);
  });
}

Array hard_sigmoid(const Operand& x) {
  return ops::elementwise("hard_sigmoid", "", Meet::kInexact, {&x},
                          [](Tracers t) { return relu6(t[0] + 3.0) / 6.0; });
}

Array hard_silu(const Operand& x) {
  return ops::elementwise("hard_silu", "", Meet::kInexact, {&x},
                          [](Tracers t) { return t[0] * hard_sigmoid(t[0]); });
}

Array mish(const Operand& x) {
  return ops::elementwise("mish", "", Meet::kInexact, {&x},
                          [](Tracers t) { return t[0] * tanh(softplus(t[0])); });
}

Array squareplus(const Operand& x, double b) {
  return ops::elementwise("squareplus", fmt::format("{}", b), Meet::kInexact, {&x},
                          [&](Tracers t) { return (t[0] + sqrt(square(t[0]) + b)) / 2.0; });
}

Array sparse_plus(const Operand& x) {
  return ops::elementwise("sparse_plus", "", Meet::kInexact, {&x}, [](Tracers t) {
    return where(t[0] <= -1, 0.0, where(t[0] >= 1, t[0], square(t[0] + 1.0) / 4.0));
  });
}

Array sparse_sigmoid(const Operand& x) {
  return ops::elementwise("sparse_sigmoid", "", Meet::kInexact, {&x},
                          [](Tracers t) { return 0.5 * clip(t[0] + 1.0, 0.0, 2.0); });
}

Array glu(const Operand& x, std::int64_t axis) {
  return ops::elementwise("glu", fmt::format("{}", axis), Meet::kInexact, {&x}, [&](Tracers t) {
    std::vector<Array> halves = split(t[0], 2, axis);
    return halves[0] * sigmoid(halves[1]);
  });
}

Array softmax(const Operand& x, Axes axis) {
  return ops::elementwise("softmax", key_of(axis), Meet::kInexact, {&x}, [&](Tracers t) {
    if (t[0].size() == 0) return t[0];
    Array powers = exp(shifted(t[0], axis));
    return powers / sum(powers, {.axis = axis, .keepdims = true});
  });
}

Array log_softmax(const Operand& x, Axes axis) {
  return ops::elementwise("log_softmax", key_of(axis), Meet::kInexact, {&x}, [&](Tracers t) {
    if (t[0].size() == 0) return t[0];
    Array below = shifted(t[0], axis);
    return below - log(sum(exp(below), {.axis = axis, .keepdims = true}));
  });
}

}  // namespace lockstep::nn
