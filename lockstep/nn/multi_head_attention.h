// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/nn/attention.h"
#include "lockstep/nn/kv_cache.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/rotary.h"

namespace lockstep::nn {

/// Attention with several heads of qkv_features / num_heads features each, between linear layers: flax's
/// MultiHeadDotProductAttention. With fewer key heads than heads, each key head serves a group of heads
/// (dot_product_attention).
struct MultiHeadAttention {
  std::int64_t num_heads = 1, in_features = 0;
  std::int64_t qkv_features = 0, out_features = 0;  ///< 0: the same as in_features
  std::int64_t num_key_heads = 0;                   ///< 0: the same as num_heads; otherwise a divisor of it
  bool use_bias = true;
  /// Instead of use_bias, for one projection: Qwen 2 has out_bias = false, Whisper key_bias = false.
  std::optional<bool> query_bias = {}, key_bias = {}, value_bias = {}, out_bias = {};
  std::optional<double> rotary_base = {};  ///< queries and keys are turned by rotary_embedding of this base
  Initializer kernel_init = {};            ///< of query, key and value, and
  Initializer out_kernel_init = {};        ///< of out: by default lecun_normal
  Initializer bias_init = {};              ///< by default zeros
  PartitionSpec axes = {};                 ///< logical axes of features, heads and features of a head
  DType dtype = DType::kF32;

  Linear query = {}, key = {}, value = {};  ///< in_features to [heads, features of a head]
  Linear out = {};                          ///< [heads, features of a head] to out_features

  MultiHeadAttention init(const random::KeyOperand& key) const;

  /// Self-attention: [batch, rows, in_features] to [batch, rows, out_features]; or attention from the rows of
  /// one array to those of another. Throws as dot_product_attention does, and ShapeError for features that do
  /// not match.
  Array operator()(const Operand& x, const AttentionOptions& options = {}) const;
  Array operator()(const Operand& queries, const Operand& keys, const AttentionOptions& options = {}) const;
  Array operator()(const Operand& queries, const Operand& keys, const Operand& values,
                   const AttentionOptions& options = {}) const;

  /// Self-attention of which queries and keys are turned by these tables, instead of rotary_base. The tables
  /// have the positions, and are made once for all layers (rotary_tables).
  Array operator()(const Operand& x, const RotaryTables& rotary, const AttentionOptions& options = {}) const;

  /// A cache for up to `capacity` rows, by default in the dtype of the keys' kernel.
  KvCache make_cache(std::int64_t batch, std::int64_t capacity, std::int64_t window = 0,
                     std::optional<DType> dtype = {}) const;

  /// Causal self-attention of the next rows, one or several, to all rows so far; the cache gets their keys
  /// and values. If the examples have different numbers of rows, query_seq_lengths are those, and the rest is
  /// padding. Masks and biases of `options` are for [batch, heads, rows, capacity], without a window of the
  /// cache. With rotary_base the positions are cache.next_positions(rows); tables are those of the new rows.
  /// For examples of more rows than the capacity the result is NaN. Throws as KvCache::update does.
  Array operator()(const Operand& x, KvCache& cache, const AttentionOptions& options = {}) const;
  Array operator()(const Operand& x, KvCache& cache, const RotaryTables& rotary,
                   const AttentionOptions& options = {}) const;

  std::vector<tree::NamedAxes> logical_axes() const;
  static void tree_parts(MultiHeadAttention& self, tree::Parts& part);

 private:
  /// Turned queries, keys, and values.
  struct Projected {
    Array query, key, value;
  };
  Projected projected(const Operand& queries, const Operand& keys, const Operand& values,
                      const RotaryTables* rotary, const std::optional<Array>& positions) const;
  Array with_cache(const Operand& x, KvCache& cache, const RotaryTables* rotary,
                   AttentionOptions options) const;
};

}  // namespace lockstep::nn
