// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers.h"

#include <string>

#include "lockstep/base/fail.h"
#include "lockstep/nn/layer_arrays.h"
#include "lockstep/nn/normalization.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/shape.h"
#include "lockstep/random/distributions.h"

namespace lockstep::nn {

using internal::check_features;
using internal::check_made;
using internal::check_sizes;
using internal::last_axes;
using internal::made;

Linear Linear::init(const random::KeyOperand& key) const {
  CallSiteScope here(key.site());
  check_sizes("Linear", "in_features", in_features.sizes());
  check_sizes("Linear", "out_features", out_features.sizes());
  Linear layer = *this;
  Shape whole = in_features.sizes();
  whole.insert(whole.end(), out_features.sizes().begin(), out_features.sizes().end());
  const Shape matrix = {in_features.product(), out_features.product()};
  layer.kernel =
      reshape(made(kernel_init, initializers::lecun_normal(), key, "kernel", matrix, dtype), whole);
  layer.bias.reset();
  if (use_bias) layer.bias = made(bias_init, initializers::zeros, key, "bias", out_features.sizes(), dtype);
  return layer;
}

Array Linear::operator()(const Operand& x) const {
  CallSiteScope here(x.site());
  check_made("Linear", kernel);
  check_features("Linear", x, in_features.sizes());
  Array y = tensordot(x, kernel, in_features.rank());
  return bias ? y + *bias : y;
}

std::vector<tree::NamedAxes> Linear::logical_axes() const {
  std::vector<tree::NamedAxes> all = {{"kernel", axes}};
  if (use_bias) all.push_back({"bias", last_axes(axes, in_features.rank(), out_features.rank())});
  return all;
}

void Linear::tree_parts(Linear& self, tree::Parts& part) {
  part("in_features", self.in_features)("kernel", self.kernel)("bias", self.bias);
}

Embedding Embedding::init(const random::KeyOperand& key) const {
  CallSiteScope here(key.site());
  check_sizes("Embedding", "num_embeddings and features", {num_embeddings, features});
  using namespace initializers;
  const FanAxes by_features{.in_axis = {-2}, .out_axis = {0}};
  Embedding layer = *this;
  layer.embedding = made(embedding_init, variance_scaling(1, Fan::kIn, Distribution::kNormal, by_features),
                         key, "embedding", {num_embeddings, features}, dtype);
  return layer;
}

Array Embedding::operator()(const Operand& indices) const {
  CallSiteScope here(indices.site());
  check_made("Embedding", embedding);
  return nn::embedding(embedding, indices);
}

Array Embedding::attend(const Operand& x) const {
  CallSiteScope here(x.site());
  check_made("Embedding", embedding);
  return matmul(x, transpose(embedding));
}

std::vector<tree::NamedAxes> Embedding::logical_axes() const { return {{"embedding", axes}}; }

void Embedding::tree_parts(Embedding& self, tree::Parts& part) { part("embedding", self.embedding); }

LayerNorm LayerNorm::init(const random::KeyOperand& key) const {
  CallSiteScope here(key.site());
  check_sizes("LayerNorm", "features", {features});
  LayerNorm layer = *this;
  layer.scale.reset();
  layer.bias.reset();
  if (use_scale) layer.scale = initializers::ones({}, {features}, dtype);
  if (use_bias) layer.bias = initializers::zeros({}, {features}, dtype);
  return layer;
}

Array LayerNorm::operator()(const Operand& x) const {
  CallSiteScope here(x.site());
  if (use_scale || use_bias) check_made("LayerNorm", use_scale ? scale : bias);
  return layer_norm(x, scale ? Operand(*scale) : Operand(1.0), bias ? Operand(*bias) : Operand(0.0), epsilon);
}

std::vector<tree::NamedAxes> LayerNorm::logical_axes() const { return {{"scale", axes}, {"bias", axes}}; }

void LayerNorm::tree_parts(LayerNorm& self, tree::Parts& part) {
  part("epsilon", std::as_const(self.epsilon))("scale", self.scale)("bias", self.bias);
}

RMSNorm RMSNorm::init(const random::KeyOperand& key) const {
  CallSiteScope here(key.site());
  check_sizes("RMSNorm", "features", {features});
  RMSNorm layer = *this;
  layer.scale.reset();
  if (use_scale) layer.scale = initializers::ones({}, {features}, dtype);
  return layer;
}

Array RMSNorm::operator()(const Operand& x) const {
  CallSiteScope here(x.site());
  if (use_scale) check_made("RMSNorm", scale);
  return rms_norm(x, scale ? Operand(*scale) : Operand(1.0), epsilon);
}

std::vector<tree::NamedAxes> RMSNorm::logical_axes() const { return {{"scale", axes}}; }

void RMSNorm::tree_parts(RMSNorm& self, tree::Parts& part) {
  part("epsilon", std::as_const(self.epsilon))("scale", self.scale);
}

GroupNorm GroupNorm::init(const random::KeyOperand& key) const {
  CallSiteScope here(key.site());
  check_sizes("GroupNorm", "features and num_groups", {features, num_groups});
  if (features % num_groups != 0) {
    fail<ShapeError>("[nn::GroupNorm] expected features that num_groups divides, got {} and {}{}", features,
                     num_groups, ops::at());
  }
  GroupNorm layer = *this;
  layer.scale.reset();
  layer.bias.reset();
  if (use_scale) layer.scale = initializers::ones({}, {features}, dtype);
  if (use_bias) layer.bias = initializers::zeros({}, {features}, dtype);
  return layer;
}

Array GroupNorm::operator()(const Operand& x) const {
  CallSiteScope here(x.site());
  if (use_scale || use_bias) check_made("GroupNorm", use_scale ? scale : bias);
  return group_norm(x, num_groups, scale ? Operand(*scale) : Operand(1.0),
                    bias ? Operand(*bias) : Operand(0.0), epsilon);
}

std::vector<tree::NamedAxes> GroupNorm::logical_axes() const { return {{"scale", axes}, {"bias", axes}}; }

void GroupNorm::tree_parts(GroupNorm& self, tree::Parts& part) {
  part("num_groups", std::as_const(self.num_groups))("epsilon", std::as_const(self.epsilon));
  part("scale", self.scale)("bias", self.bias);
}

Conv Conv::init(const random::KeyOperand& key) const {
  CallSiteScope here(key.site());
  check_sizes("Conv", "kernel_size, in_features and out_features", {in_features, out_features});
  check_sizes("Conv", "kernel_size", kernel_size);
  const std::int64_t groups = options.feature_group_count;
  if (groups < 1 || in_features % groups != 0) {
    fail<ShapeError>("[nn::Conv] expected in_features that feature_group_count divides, got {} and {}{}",
                     in_features, groups, ops::at());
  }
  Shape shape = kernel_size;
  shape.insert(shape.end(), {in_features / groups, out_features});
  Conv layer = *this;
  layer.kernel = made(kernel_init, initializers::lecun_normal(), key, "kernel", shape, dtype);
  layer.bias.reset();
  if (use_bias) layer.bias = made(bias_init, initializers::zeros, key, "bias", {out_features}, dtype);
  return layer;
}

Array Conv::operator()(const Operand& x) const {
  CallSiteScope here(x.site());
  check_made("Conv", kernel);
  Array y = conv(x, kernel, options);
  return bias ? y + *bias : y;
}

std::vector<tree::NamedAxes> Conv::logical_axes() const {
  std::vector<tree::NamedAxes> all = {{"kernel", axes}};
  if (use_bias)
    all.push_back({"bias", last_axes(axes, static_cast<std::int64_t>(kernel_size.size()) + 1, 1)});
  return all;
}

void Conv::tree_parts(Conv& self, tree::Parts& part) {
  const std::string padding = self.options.padding.to_string();
  part("strides", std::as_const(self.options.window_strides))("padding", padding);
  part("lhs_dilation", std::as_const(self.options.lhs_dilation));
  part("rhs_dilation", std::as_const(self.options.rhs_dilation));
  part("groups", std::as_const(self.options.feature_group_count));
  part("batch_groups", std::as_const(self.options.batch_group_count));
  part("precision", std::as_const(self.options.precision));
  part("preferred_element_type", std::as_const(self.options.preferred_element_type));
  part("kernel", self.kernel)("bias", self.bias);
}

ConvTranspose ConvTranspose::init(const random::KeyOperand& key) const {
  CallSiteScope here(key.site());
  check_sizes("ConvTranspose", "in_features and out_features", {in_features, out_features});
  check_sizes("ConvTranspose", "kernel_size", kernel_size);
  Shape shape = kernel_size;
  shape.insert(shape.end(), {in_features, out_features});
  if (options.transpose_kernel) std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  ConvTranspose layer = *this;
  layer.kernel = made(kernel_init, initializers::lecun_normal(), key, "kernel", shape, dtype);
  layer.bias.reset();
  if (use_bias) layer.bias = made(bias_init, initializers::zeros, key, "bias", {out_features}, dtype);
  return layer;
}

Array ConvTranspose::operator()(const Operand& x) const {
  CallSiteScope here(x.site());
  check_made("ConvTranspose", kernel);
  Array y = conv_transpose(x, kernel, options);
  return bias ? y + *bias : y;
}

std::vector<tree::NamedAxes> ConvTranspose::logical_axes() const {
  std::vector<tree::NamedAxes> all = {{"kernel", axes}};
  const std::int64_t outputs =
      static_cast<std::int64_t>(kernel_size.size()) + (options.transpose_kernel ? 0 : 1);
  if (use_bias) all.push_back({"bias", last_axes(axes, outputs, 1)});
  return all;
}

void ConvTranspose::tree_parts(ConvTranspose& self, tree::Parts& part) {
  const std::string padding = self.options.padding.to_string();
  part("strides", std::as_const(self.options.strides))("padding", padding);
  part("rhs_dilation", std::as_const(self.options.rhs_dilation));
  part("transpose_kernel", std::as_const(self.options.transpose_kernel));
  part("kernel", self.kernel)("bias", self.bias);
}

void Dropout::tree_parts(Dropout& self, tree::Parts& part) { part("rate", std::as_const(self.rate)); }

Array Dropout::operator()(const Operand& x, const std::optional<random::Key>& key) const {
  CallSiteScope here(x.site());
  if (!(rate >= 0 && rate < 1)) {
    fail("[nn::Dropout] expected a rate in [0, 1), got {}{}", rate, ops::at());
  }
  return key ? random::dropout(*key, x, rate) : x.as_array();
}

}  // namespace lockstep::nn
