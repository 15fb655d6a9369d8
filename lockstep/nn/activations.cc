#include "lockstep/nn/activations.h"

#include <fmt/ranges.h>

#include <cmath>
#include <numbers>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/elementwise.h"

namespace lockstep::nn {
namespace {

using ops::Meet;
using ops::Tracers;

std::string key_of(const Axes& axis) {
  return axis.axes() ? fmt::format("axes=[{}]", fmt::join(*axis.axes(), ",")) : "axes=all";
}

/// x less its largest along the axes, which no derivative goes through.
Array shifted(const Array& x, const Axes& axis) {
  return x - max(stop_gradient(x), {.axis = axis, .keepdims = true});
}

}  // namespace

Array relu(const Operand& x) {
  return ops::elementwise("relu", "", Meet::kPromote, {&x},
                          [](Tracers t) { return where(t[0] > 0, t[0], 0); });
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
    // exp of what is not chosen must not overflow: its derivative would be no number.
    Array below = where(t[0] > 0, 0, t[0]);
    return where(t[0] > 0, t[0], alpha * expm1(below));
  });
}

Array gelu(const Operand& x) {
  return ops::elementwise("gelu", "", Meet::kInexact, {&x}, [](Tracers t) {
    const double scale = std::sqrt(2 * std::numbers::inv_pi);
    Array inner = scale * (t[0] + 0.044715 * power(t[0], 3));
    return t[0] * (0.5 * (1.0 + tanh(inner)));
  });
}

Array softmax(const Operand& x, Axes axis) {
  return ops::elementwise("softmax", key_of(axis), Meet::kInexact, {&x}, [&](Tracers t) {
    Array powers = exp(shifted(t[0], axis));
    return powers / sum(powers, {.axis = axis, .keepdims = true});
  });
}

Array log_softmax(const Operand& x, Axes axis) {
  return ops::elementwise("log_softmax", key_of(axis), Meet::kInexact, {&x}, [&](Tracers t) {
    Array below = shifted(t[0], axis);
    return below - log(sum(exp(below), {.axis = axis, .keepdims = true}));
  });
}

}  // namespace lockstep::nn
