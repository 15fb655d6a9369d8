// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/multi_head_attention.h"

#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/nn/layer_arrays.h"
#include "lockstep/nn/rotary.h"
#include "lockstep/ops/apply.h"

namespace lockstep::nn {
namespace {

/// The spec of these of the dimensions that `axes` is of.
PartitionSpec picked(const PartitionSpec& axes, const std::vector<std::size_t>& dims) {
  std::vector<std::vector<std::string>> entries;
  for (std::size_t d : dims) entries.push_back(axes.axes(d));
  return PartitionSpec::from_entries(std::move(entries)).normalized();
}

}  // namespace

MultiHeadAttention MultiHeadAttention::init(const random::KeyOperand& key) const {
  CallSiteScope here(key.site());
  const std::int64_t features = qkv_features == 0 ? in_features : qkv_features;
  const std::int64_t key_heads = num_key_heads == 0 ? num_heads : num_key_heads;
  internal::check_sizes("MultiHeadAttention", "num_heads, in_features and qkv_features",
                        {num_heads, in_features, features});
  if (features % num_heads != 0 || key_heads < 1 || num_heads % key_heads != 0) {
    fail<ShapeError>(
        "[nn::MultiHeadAttention] expected heads that divide the features, and key heads that divide the "
        "heads, got {} features, {} heads and {} key heads{}",
        features, num_heads, key_heads, ops::at());
  }
  const std::int64_t each = features / num_heads;
  const Linear one{.in_features = in_features,
                   .out_features = {num_heads, each},
                   .use_bias = use_bias,
                   .kernel_init = kernel_init,
                   .bias_init = bias_init,
                   .axes = axes,
                   .dtype = dtype};
  MultiHeadAttention layer = *this;
  layer.query = layer.key = layer.value = layer.out = one;
  layer.key.out_features = layer.value.out_features = {key_heads, each};
  layer.out.in_features = {num_heads, each};
  layer.out.out_features = out_features == 0 ? in_features : out_features;
  layer.out.kernel_init = out_kernel_init;
  layer.out.axes = picked(axes, {1, 2, 0});
  return init_parts(std::move(layer), key.as_array(), key.where());
}

Array MultiHeadAttention::operator()(const Operand& x, const AttentionOptions& options) const {
  return (*this)(x, x, x, options);
}

Array MultiHeadAttention::operator()(const Operand& queries, const Operand& keys,
                                     const AttentionOptions& options) const {
  return (*this)(queries, keys, keys, options);
}

Array MultiHeadAttention::operator()(const Operand& queries, const Operand& keys, const Operand& values,
                                     const AttentionOptions& options) const {
  CallSiteScope here(queries.site());
  internal::check_made("MultiHeadAttention", out.kernel);
  Array asked = query(queries), offered = key(keys);
  if (rotary_base) {
    asked = rotary_embedding(asked, {.base = *rotary_base});
    offered = rotary_embedding(offered, {.base = *rotary_base});
  }
  return out(dot_product_attention(asked, offered, value(values), options));
}

std::vector<tree::NamedAxes> MultiHeadAttention::logical_axes() const {
  std::vector<tree::NamedAxes> all = {{"out.kernel", picked(axes, {1, 2, 0})}};
  for (const char* name : {"query", "key", "value"}) all.push_back({std::string(name) + ".kernel", axes});
  if (!use_bias) return all;
  all.push_back({"out.bias", picked(axes, {0})});
  for (const char* name : {"query", "key", "value"})
    all.push_back({std::string(name) + ".bias", picked(axes, {1, 2})});
  return all;
}

void MultiHeadAttention::tree_parts(MultiHeadAttention& self, tree::Parts& part) {
  part("rotary_base", std::as_const(self.rotary_base));
  part("query", self.query)("key", self.key)("value", self.value)("out", self.out);
}

}  // namespace lockstep::nn
