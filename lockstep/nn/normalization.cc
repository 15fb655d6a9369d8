// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/normalization.h"

#include <fmt/ranges.h>

#include "lockstep/nn/in_at_least_f32.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/elementwise.h"

namespace lockstep::nn {
namespace {

using internal::in_at_least_f32;
using ops::Meet;
using ops::Tracers;

Array standardized(const Array& x, const Axes& axis, double epsilon) {
  Array centered = x - mean(x, {.axis = axis, .keepdims = true});
  Array variance = mean(square(centered), {.axis = axis, .keepdims = true});
  return centered * rsqrt(variance + epsilon);
}

}  // namespace

Array standardize(const Operand& x, Axes axis, double epsilon) {
  const std::string axes = axis.axes() ? fmt::format("{}", fmt::join(*axis.axes(), ",")) : "all";
  return ops::elementwise(
      "standardize", fmt::format("{} {}", axes, epsilon), Meet::kInexact, {&x}, [&](Tracers given) {
        return in_at_least_f32(given, [&](Tracers t) { return standardized(t[0], axis, epsilon); });
      });
}

Array layer_norm(const Operand& x, const Operand& scale, const Operand& bias, double epsilon) {
  auto normalized = [&](Tracers t) { return standardized(t[0], -1, epsilon) * t[1] + t[2]; };
  return ops::elementwise("layer_norm", fmt::format("{}", epsilon), Meet::kInexact, {&x, &scale, &bias},
                          [&](Tracers given) { return in_at_least_f32(given, normalized); });
}

Array rms_norm(const Operand& x, const Operand& scale, double epsilon) {
  auto normalized = [&](Tracers t) {
    Array squares = mean(square(t[0]), {.axis = -1, .keepdims = true});
    return t[0] * rsqrt(squares + epsilon) * t[1];
  };
  return ops::elementwise("rms_norm", fmt::format("{}", epsilon), Meet::kInexact, {&x, &scale},
                          [&](Tracers given) { return in_at_least_f32(given, normalized); });
}

}  // namespace lockstep::nn
