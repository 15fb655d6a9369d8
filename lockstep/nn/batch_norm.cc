// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/batch_norm.h"

#include <utility>

#include "lockstep/nn/layer_arrays.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/collectives.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduction.h"

namespace lockstep::nn {

BatchStats BatchStats::init(const random::KeyOperand& key) const {
  CallSiteScope here(key.site());
  internal::check_sizes("BatchStats", "features", {features});
  BatchStats stats = *this;
  stats.mean = initializers::zeros({}, {features}, dtype);
  stats.var = initializers::ones({}, {features}, dtype);
  return stats;
}

void BatchStats::tree_parts(BatchStats& self, tree::Parts& part) { part("mean", self.mean)("var", self.var); }

BatchNorm BatchNorm::init(const random::KeyOperand& key) const {
  CallSiteScope here(key.site());
  internal::check_sizes("BatchNorm", "features", {features});
  BatchNorm layer = *this;
  layer.scale.reset();
  layer.bias.reset();
  if (use_scale) layer.scale = initializers::ones({}, {features}, dtype);
  if (use_bias) layer.bias = initializers::zeros({}, {features}, dtype);
  return layer;
}

Array BatchNorm::operator()(const Operand& x, BatchStats& stats, bool training) const {
  CallSiteScope here(x.site());
  if (use_scale || use_bias) internal::check_made("BatchNorm", use_scale ? scale : bias);
  internal::check_made("BatchStats", stats.mean);
  internal::check_features("BatchNorm", x, stats.mean.shape());
  std::vector<ElementType> types = {to_inexact(x.type())};
  for (const auto& own : {scale, bias}) {
    if (own) types.push_back({own->dtype(), false});
  }
  const Array wide = ops::widened(astype(x, types.front().dtype));
  Array mean = stats.mean, var = stats.var;
  if (training) {
    std::vector<std::int64_t> all;
    for (std::size_t d = 0; d + 1 < wide.shape().size(); ++d) all.push_back(static_cast<std::int64_t>(d));
    double count = static_cast<double>(wide.size()) / static_cast<double>(mean.size());
    auto averaged = [&](const Array& values) {
      const Array own = lockstep::mean(values, {.axis = all});
      return axis_name.empty() ? own : pmean(own, axis_name);
    };
    mean = averaged(wide);
    var = averaged(square(wide - mean));
    if (!axis_name.empty()) count *= static_cast<double>(axis_size(axis_name));
    const double correction = unbiased_var && count > 1 ? count / (count - 1) : 1;
    auto follow = [&](Array& running, const Array& now) {
      running = astype(momentum * running + (1 - momentum) * stop_gradient(now), running.dtype());
    };
    follow(stats.mean, mean);
    follow(stats.var, correction * var);
  }
  Array factor = rsqrt(var + epsilon);
  if (scale) factor = factor * *scale;
  const Array y = (wide - mean) * factor;
  return astype(bias ? y + *bias : y, promote("nn::BatchNorm", types).dtype);
}

std::vector<tree::NamedAxes> BatchNorm::logical_axes() const { return {{"scale", axes}, {"bias", axes}}; }

void BatchNorm::tree_parts(BatchNorm& self, tree::Parts& part) {
  part("momentum", std::as_const(self.momentum))("epsilon", std::as_const(self.epsilon));
  part("unbiased_var", std::as_const(self.unbiased_var))("axis_name", std::as_const(self.axis_name));
  part("scale", self.scale)("bias", self.bias);
}

}  // namespace lockstep::nn
