// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/nn/convolution.h"
#include "lockstep/nn/initializers.h"
#include "lockstep/nn/layer.h"
#include "lockstep/ops/operand.h"

/// Layers that compute as flax's do. Each is an aggregate: first its configuration, then its arrays, which
/// `init(key)` makes; nn::init does so for all layers of a model. Calling a layer whose arrays are not made
/// is an Error. Fields that only `init` uses (initializers, logical axes, dtype) are not part of the tree;
/// the other configuration is part of its structure.
namespace lockstep::nn {

/// The last dimensions of x, which are in_features, times the kernel, plus the bias: [..., in_features...] to
/// [..., out_features...]. This is flax's Dense, and DenseGeneral if features have several dimensions. The
/// kernel's initializer gets the shape [product of in_features, product of out_features].
struct Linear {
  Features in_features = {}, out_features = {};
  bool use_bias = true;
  Initializer kernel_init = {};  ///< by default lecun_normal
  Initializer bias_init = {};    ///< by default zeros
  PartitionSpec axes = {};       ///< logical axes of the kernel; the last ones are the bias's
  DType dtype = DType::kF32;

  Array kernel = {};               ///< [in_features..., out_features...]
  std::optional<Array> bias = {};  ///< [out_features...]

  Linear init(const random::KeyOperand& key) const;
  Array operator()(const Operand& x) const;
  std::vector<tree::NamedAxes> logical_axes() const;
  static void tree_parts(Linear& self, tree::Parts& part);
};

/// A vector for each entry of a table.
struct Embedding {
  std::int64_t num_embeddings = 0, features = 0;
  Initializer embedding_init = {};  ///< by default normal, with variance 1 / features
  PartitionSpec axes = {};
  DType dtype = DType::kF32;

  Array embedding = {};  ///< [num_embeddings, features]

  Embedding init(const random::KeyOperand& key) const;

  /// Integers [...] to [..., features].
  Array operator()(const Operand& indices) const;

  /// The product with each entry: [..., features] to [..., num_embeddings]. Use it as the last layer of a
  /// language model that shares its table with the first.
  Array attend(const Operand& x) const;

  std::vector<tree::NamedAxes> logical_axes() const;
  static void tree_parts(Embedding& self, tree::Parts& part);
};

/// Normalizes to mean 0 and variance 1 along the last dimension, then multiplies by scale and adds bias.
struct LayerNorm {
  std::int64_t features = 0;
  double epsilon = 1e-6;
  bool use_scale = true, use_bias = true;
  PartitionSpec axes = {};
  DType dtype = DType::kF32;

  std::optional<Array> scale = {}, bias = {};  ///< [features]: initially ones and zeros

  LayerNorm init(const random::KeyOperand& key) const;
  Array operator()(const Operand& x) const;
  std::vector<tree::NamedAxes> logical_axes() const;
  static void tree_parts(LayerNorm& self, tree::Parts& part);
};

/// Divides by the root of the mean square along the last dimension, then multiplies by scale.
struct RMSNorm {
  std::int64_t features = 0;
  double epsilon = 1e-6;
  bool use_scale = true;
  PartitionSpec axes = {};
  DType dtype = DType::kF32;

  std::optional<Array> scale = {};  ///< [features]: initially ones

  RMSNorm init(const random::KeyOperand& key) const;
  Array operator()(const Operand& x) const;
  std::vector<tree::NamedAxes> logical_axes() const;
  static void tree_parts(RMSNorm& self, tree::Parts& part);
};

/// Groups of features, normalized for each example over all spatial dimensions (group_norm), then multiplied
/// by scale, plus bias. One group is a layer norm of the whole example, a group for each feature an instance
/// norm.
struct GroupNorm {
  std::int64_t features = 0, num_groups = 32;
  double epsilon = 1e-6;
  bool use_scale = true, use_bias = true;
  PartitionSpec axes = {};
  DType dtype = DType::kF32;

  std::optional<Array> scale = {}, bias = {};  ///< [features]: initially ones and zeros

  /// Throws ShapeError unless num_groups divides the features.
  GroupNorm init(const random::KeyOperand& key) const;
  Array operator()(const Operand& x) const;
  std::vector<tree::NamedAxes> logical_axes() const;
  static void tree_parts(GroupNorm& self, tree::Parts& part);
};

/// A convolution from [batch, spatial..., in_features] to [batch, spatial..., out_features].
struct Conv {
  std::int64_t in_features = 0, out_features = 0;
  std::vector<std::int64_t> kernel_size = {};
  ConvOptions options = {.padding = "SAME"};  ///< strides, dilations and groups; dimension_numbers are not
                                              ///< supported
  bool use_bias = true;
  Initializer kernel_init = {};  ///< by default lecun_normal
  Initializer bias_init = {};    ///< by default zeros
  PartitionSpec axes = {};
  DType dtype = DType::kF32;

  Array kernel = {};               ///< [kernel_size..., in_features / groups, out_features]
  std::optional<Array> bias = {};  ///< [out_features]

  Conv init(const random::KeyOperand& key) const;
  Array operator()(const Operand& x) const;
  std::vector<tree::NamedAxes> logical_axes() const;
  static void tree_parts(Conv& self, tree::Parts& part);
};

/// A transposed convolution (conv_transpose), which enlarges: [batch, spatial..., in_features] to [batch,
/// spatial * strides..., out_features] with the padding SAME.
struct ConvTranspose {
  std::int64_t in_features = 0, out_features = 0;
  std::vector<std::int64_t> kernel_size = {};
  ConvTransposeOptions options = {};
  bool use_bias = true;
  Initializer kernel_init = {};  ///< by default lecun_normal
  Initializer bias_init = {};    ///< by default zeros
  PartitionSpec axes = {};
  DType dtype = DType::kF32;

  Array kernel = {};  ///< [kernel_size..., in_features, out_features]; with options.transpose_kernel
                      ///< [kernel_size..., out_features, in_features]
  std::optional<Array> bias = {};  ///< [out_features]

  ConvTranspose init(const random::KeyOperand& key) const;
  Array operator()(const Operand& x) const;
  std::vector<tree::NamedAxes> logical_axes() const;
  static void tree_parts(ConvTranspose& self, tree::Parts& part);
};

/// Sets each element to 0 with probability `rate`, and divides the others by 1 - rate. Without a key (outside
/// of training) it returns x. Throws Error for a rate outside of [0, 1).
struct Dropout {
  double rate = 0;

  Array operator()(const Operand& x, const std::optional<random::Key>& key) const;
  static void tree_parts(Dropout& self, tree::Parts& part);
};

}  // namespace lockstep::nn
