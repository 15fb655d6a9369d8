#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/nn/convolution.h"
#include "lockstep/nn/initializers.h"
#include "lockstep/nn/layer.h"
#include "lockstep/ops/operand.h"

/// Layers, with flax's mathematics. Each is an aggregate: first what it shall be, then its arrays, which
/// `init(key)` makes; nn::init does so for all layers of a model. Calling a layer whose arrays are not made
/// is an Error. What init takes alone (initializers, logical axes, dtype) is no part of the tree; the rest
/// belongs to its structure.
namespace lockstep::nn {

/// x's last dimensions, which are in_features, times the kernel, plus the bias: [..., in_features...] to
/// [..., out_features...]. flax's Dense, and DenseGeneral where features have several dimensions. The kernel
/// is drawn as a matrix of all in_features by all out_features.
struct Linear {
  Features in_features = {}, out_features = {};
  bool use_bias = true;
  Initializer kernel_init = {};  ///< by default lecun_normal
  Initializer bias_init = {};    ///< by default zeros
  PartitionSpec axes = {};       ///< logical axes of the kernel; the last ones are the bias's
  DType dtype = DType::kF32;

  Array kernel = {};               ///< [in_features..., out_features...]
  std::optional<Array> bias = {};  ///< [out_features...]

  Linear init(const Operand& key) const;
  Array operator()(const Operand& x) const;
  std::vector<tree::NamedAxes> logical_axes() const;
  static void tree_parts(Linear& self, tree::Parts& part);
};

/// A vector for each of so many entries.
struct Embedding {
  std::int64_t num_embeddings = 0, features = 0;
  Initializer embedding_init = {};  ///< by default normal, of variance 1 / features
  PartitionSpec axes = {};
  DType dtype = DType::kF32;

  Array embedding = {};  ///< [num_embeddings, features]

  Embedding init(const Operand& key) const;

  /// [...] whole numbers to [..., features].
  Array operator()(const Operand& indices) const;

  /// The product with each entry, [..., features] to [..., num_embeddings]: the last layer of a language
  /// model that shares its table with the first.
  Array attend(const Operand& x) const;

  std::vector<tree::NamedAxes> logical_axes() const;
  static void tree_parts(Embedding& self, tree::Parts& part);
};

/// Of mean 0 and variance 1 along the last dimension, times scale, plus bias.
struct LayerNorm {
  std::int64_t features = 0;
  double epsilon = 1e-6;
  bool use_scale = true, use_bias = true;
  PartitionSpec axes = {};
  DType dtype = DType::kF32;

  std::optional<Array> scale = {}, bias = {};  ///< [features]: ones, zeros

  LayerNorm init(const Operand& key) const;
  Array operator()(const Operand& x) const;
  std::vector<tree::NamedAxes> logical_axes() const;
  static void tree_parts(LayerNorm& self, tree::Parts& part);
};

/// Over the root of the mean of squares along the last dimension, times scale.
struct RMSNorm {
  std::int64_t features = 0;
  double epsilon = 1e-6;
  bool use_scale = true;
  PartitionSpec axes = {};
  DType dtype = DType::kF32;

  std::optional<Array> scale = {};  ///< [features]: ones

  RMSNorm init(const Operand& key) const;
  Array operator()(const Operand& x) const;
  std::vector<tree::NamedAxes> logical_axes() const;
  static void tree_parts(RMSNorm& self, tree::Parts& part);
};

/// A convolution of [batch, spatial..., in_features] to [batch, spatial..., out_features].
struct Conv {
  std::int64_t in_features = 0, out_features = 0;
  std::vector<std::int64_t> kernel_size = {};
  ConvOptions options = {.padding = "SAME"};  ///< strides, dilations and groups; no dimension numbers
  bool use_bias = true;
  Initializer kernel_init = {};  ///< by default lecun_normal
  Initializer bias_init = {};    ///< by default zeros
  PartitionSpec axes = {};
  DType dtype = DType::kF32;

  Array kernel = {};               ///< [kernel_size..., in_features / groups, out_features]
  std::optional<Array> bias = {};  ///< [out_features]

  Conv init(const Operand& key) const;
  Array operator()(const Operand& x) const;
  std::vector<tree::NamedAxes> logical_axes() const;
  static void tree_parts(Conv& self, tree::Parts& part);
};

/// Each element 0 with probability `rate`, the others divided by 1 - rate; without a key, as when a model is
/// used, x as it is. Throws Error for a rate outside of [0, 1).
struct Dropout {
  double rate = 0;

  Array operator()(const Operand& x, const std::optional<Array>& key) const;
  static void tree_parts(Dropout& self, tree::Parts& part);
};

}  // namespace lockstep::nn
