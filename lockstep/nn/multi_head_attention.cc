// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/multi_head_attention.h"

#include <limits>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/nn/layer_arrays.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/shape.h"

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
  layer.query.use_bias = query_bias.value_or(use_bias);
  layer.key.use_bias = key_bias.value_or(use_bias);
  layer.value.use_bias = value_bias.value_or(use_bias);
  layer.out.use_bias = out_bias.value_or(use_bias);
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
  const Projected all = projected(queries, keys, values, nullptr, std::nullopt);
  return out(dot_product_attention(all.query, all.key, all.value, options));
}

Array MultiHeadAttention::operator()(const Operand& x, const RotaryTables& rotary,
                                     const AttentionOptions& options) const {
  CallSiteScope here(x.site());
  const Projected all = projected(x, x, x, &rotary, std::nullopt);
  return out(dot_product_attention(all.query, all.key, all.value, options));
}

Array MultiHeadAttention::operator()(const Operand& x, KvCache& cache,
                                     const AttentionOptions& options) const {
  return with_cache(x, cache, nullptr, options);
}

Array MultiHeadAttention::operator()(const Operand& x, KvCache& cache, const RotaryTables& rotary,
                                     const AttentionOptions& options) const {
  return with_cache(x, cache, &rotary, options);
}

KvCache MultiHeadAttention::make_cache(std::int64_t batch, std::int64_t capacity, std::int64_t window,
                                       std::optional<DType> dtype) const {
  internal::check_made("MultiHeadAttention", out.kernel);
  const Shape& kernel = key.kernel.shape();
  return KvCache::make(batch, capacity, kernel[kernel.size() - 2], kernel.back(),
                       {.dtype = dtype.value_or(key.kernel.dtype()), .window = window});
}

MultiHeadAttention::Projected MultiHeadAttention::projected(const Operand& queries, const Operand& keys,
                                                            const Operand& values, const RotaryTables* rotary,
                                                            const std::optional<Array>& positions) const {
  internal::check_made("MultiHeadAttention", out.kernel);
  Projected all = {query(queries), key(keys), value(values)};
  for (Array* each : {&all.query, &all.key}) {
    if (rotary != nullptr) {
      *each = rotary_embedding(*each, *rotary);
    } else if (rotary_base) {
      *each = rotary_embedding(*each, {.base = *rotary_base, .positions = positions});
    }
  }
  return all;
}

Array MultiHeadAttention::with_cache(const Operand& x, KvCache& cache, const RotaryTables* rotary,
                                     AttentionOptions options) const {
  CallSiteScope here(x.site());
  const std::int64_t rows = x.shape().size() < 2 ? 1 : x.shape()[1];
  const Projected own = projected(x, x, x, rotary, cache.next_positions(rows));
  const KvCache::Seen seen = cache.update(own.key, own.value, options.query_seq_lengths);
  options.mask = options.mask ? logical_and(*options.mask, seen.mask) : seen.mask;
  // The queries are at other positions than their numbers, so the window becomes a mask, too.
  const LocalWindow& window = options.local_window_size;
  const Array ahead = expand_dims(seen.keys, 1) - expand_dims(seen.queries, 2);
  if (window.left) options.mask = logical_and(*options.mask, expand_dims(ahead >= -*window.left, 1));
  options.is_causal = false;
  options.local_window_size = {};
  const DType dtype = own.query.dtype();
  const Array y =
      out(dot_product_attention(own.query, astype(seen.key, dtype), astype(seen.value, dtype), options));
  return where(reshape(cache.has_lost(), {x.shape()[0], 1, 1}), std::numeric_limits<double>::quiet_NaN(), y);
}

std::vector<tree::NamedAxes> MultiHeadAttention::logical_axes() const {
  std::vector<tree::NamedAxes> all = {{"out.kernel", picked(axes, {1, 2, 0})}};
  if (out_bias.value_or(use_bias)) all.push_back({"out.bias", picked(axes, {0})});
  const std::pair<const char*, std::optional<bool>> inputs[] = {
      {"query", query_bias}, {"key", key_bias}, {"value", value_bias}};
  for (const auto& [name, bias] : inputs) {
    all.push_back({std::string(name) + ".kernel", axes});
    if (bias.value_or(use_bias)) all.push_back({std::string(name) + ".bias", picked(axes, {1, 2})});
  }
  return all;
}

void MultiHeadAttention::tree_parts(MultiHeadAttention& self, tree::Parts& part) {
  part("rotary_base", std::as_const(self.rotary_base));
  part("query", self.query)("key", self.key)("value", self.value)("out", self.out);
}

}  // namespace lockstep::nn
