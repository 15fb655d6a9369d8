// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/nn/layer.h"
#include "lockstep/ops/operand.h"

/// Batch normalization (Ioffe and Szegedy, 2015). Its running statistics are no parameters: no gradient
/// changes them, and no optimizer should see them. They are a second tree beside the model's, which nn::init
/// makes, too, and a step returns both:
///
///   struct Net {
///     nn::Conv conv{.in_features = 3, .out_features = 16, .kernel_size = {3, 3}};
///     nn::BatchNorm norm{.features = 16};
///   };
///   struct Stats {
///     nn::BatchStats norm{.features = 16};
///   };
///   auto loss = [&](const Net& net, Stats stats, const Array& x) {
///     const Array y = net.norm(net.conv(x), stats.norm, true);
///     return std::pair(mean(square(y)), stats);
///   };
///   auto [value, grads] = value_and_grad(loss)(net, stats, x);
///   stats = value.second;
namespace lockstep::nn {

/// Running means of a BatchNorm's statistics.
struct BatchStats {
  std::int64_t features = 0;
  DType dtype = DType::kF32;

  Array mean = {}, var = {};  ///< [features]: initially zeros and ones

  BatchStats init(const random::KeyOperand& key) const;
  static void tree_parts(BatchStats& self, tree::Parts& part);
};

/// Normalizes each feature, the last dimension, over the batch and all spatial dimensions, then multiplies by
/// scale and adds bias. f16, bf16 and 8 bits are computed in f32; the result has the common dtype of x, scale
/// and bias.
///
/// Over a mesh: within jit, `batch` means the whole batch, however it is split, as in PyTorch's
/// SyncBatchNorm: the devices sum mean and variance, which are `features` numbers each. Within shard_map and
/// pmap each device has its own part of the batch, and normalizes by that alone unless `axis_name` names the
/// axes over which it is split.
struct BatchNorm {
  std::int64_t features = 0;
  double momentum = 0.99;  ///< of the running statistics: 1 - PyTorch's momentum
  double epsilon = 1e-5;
  bool use_scale = true, use_bias = true;
  bool unbiased_var = false;  ///< the running variance is that of n - 1, as in PyTorch, instead of n elements
  std::vector<std::string> axis_name = {};
  PartitionSpec axes = {};
  DType dtype = DType::kF32;

  std::optional<Array> scale = {}, bias = {};  ///< [features]: initially ones and zeros

  BatchNorm init(const random::KeyOperand& key) const;

  /// In training, normalizes by the batch's mean and variance and replaces each running one by
  /// momentum * it + (1 - momentum) * the batch's. Otherwise normalizes by the running ones.
  Array operator()(const Operand& x, BatchStats& stats, bool training) const;

  std::vector<tree::NamedAxes> logical_axes() const;
  static void tree_parts(BatchNorm& self, tree::Parts& part);
};

}  // namespace lockstep::nn
