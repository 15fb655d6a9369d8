// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/normalization.h"

#include <fmt/ranges.h>

#include "lockstep/nn/in_at_least_f32.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/shape.h"

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

Array group_norm(const Operand& x, std::int64_t num_groups, const Operand& scale, const Operand& bias,
                 double epsilon) {
  CallSiteScope here(x.site());
  const Shape shape = x.shape();
  if (shape.size() < 2 || num_groups < 1 || shape.back() % num_groups != 0) {
    fail<ShapeError>(
        "[group_norm] expected [batch, spatial..., features] with a number of features that the groups "
        "divide, "
        "got {} and {} groups{}",
        to_string(x.aval()), num_groups, ops::at());
  }
  auto normalized = [&](Tracers t) {
    Shape grouped = shape;
    grouped.back() = num_groups;
    grouped.push_back(shape.back() / num_groups);
    std::vector<std::int64_t> axes = {-1};
    for (std::size_t d = 1; d + 1 < shape.size(); ++d) axes.push_back(static_cast<std::int64_t>(d));
    return reshape(standardized(reshape(t[0], grouped), axes, epsilon), shape) * t[1] + t[2];
  };
  return ops::elementwise("group_norm", fmt::format("{} {}", num_groups, epsilon), Meet::kInexact,
                          {&x, &scale, &bias},
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
