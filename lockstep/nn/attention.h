#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/ops/collectives.h"
#include "lockstep/ops/operand.h"

namespace lockstep::nn {

struct AttentionOptions {
  bool is_causal = false;            ///< a query sees the keys up to its own place
  std::optional<Array> mask = {};    ///< bools that broadcast to [batch, heads, queries, keys]: who sees whom
  std::optional<Array> bias = {};    ///< added to the scores, of the same shape
  std::optional<double> scale = {};  ///< of the scores; by default 1 / sqrt(features)

  /// How many keys are scored at a time. By default 256 where a head has more than 2^20 scores, and all
  /// below; 0: always all. Blocks are made equal, so they may have fewer.
  std::optional<std::int64_t> block_size = {};
};

/// softmax(query keyᵀ * scale) value for each head (jax.nn.dot_product_attention). query is [batch, queries,
/// heads, features], key and value are [batch, keys, key heads, features], of as many heads or a divisor of
/// them, each of which then serves as many query heads: the first `heads / key heads` of them are the first
/// key head's. Keys are not repeated for them. The softmax is computed in f32 of narrower dtypes. The result
/// has query's shape. A query that sees no key gets the mean of all values.
///
/// By blocks of keys (block_size) neither the scores nor anything else of size queries * keys exists, but the
/// mask and bias that were given: the softmax is put together from the largest score and the sum of powers so
/// far. It is differentiable as often as the plain one, forwards and backwards. A derivative backwards keeps
/// query, key, value and a few numbers for each query, head and block, and computes the scores of each block
/// once more; a second derivative keeps, besides, a few arrays of query's size for each block. Over a mesh a
/// split by batch or heads needs no collectives; where the sequence is split each block has its own, and
/// ring_attention is for that.
///
/// Throws ShapeError for shapes that do not fit, and for a negative block_size.
///
/// Sources: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018); Rabe and Staats,
/// "Self-attention Does Not Need O(n²) Memory" (2021); Dao et al., "FlashAttention" (2022).
Array dot_product_attention(const Operand& query, const Operand& key, const Operand& value,
                            const AttentionOptions& options = {});

/// The same, called within shard_map or pmap by devices that each hold a part of the sequence, along `axes`:
/// query, key and value are this device's [batch, queries, heads, features] and [batch, keys, key heads,
/// features], the k-th part on the k-th device, and so is the result. Keys and values go round from each
/// device to the next, one step for each device, while the ones that are there are computed with; no device
/// ever holds more than two parts of them. `is_causal` goes by the places in the whole sequence; every device
/// computes every step, also those of which causality leaves nothing. Mask and bias broadcast to [batch,
/// heads, queries, keys of all devices]. `block_size` is of the keys of a part.
///
/// The derivative backwards keeps query, key, value, the result and two numbers for each query and head, and
/// sends keys and values round once more, with their cotangents in f32 (f64). It may be differentiated again;
/// jvp of ring_attention itself is a TraceError (all_gather key and value, and use dot_product_attention).
///
/// Throws ShapeError as dot_product_attention, DTypeError for operands that are not floating, and
/// ShardingError where `axes` are not in force.
///
/// Source: Liu, Zaharia and Abbeel, "Ring Attention with Blockwise Transformers for Near-Infinite Context"
/// (2023).
Array ring_attention(const Operand& query, const Operand& key, const Operand& value, const AxisNames& axes,
                     const AttentionOptions& options = {});

}  // namespace lockstep::nn
