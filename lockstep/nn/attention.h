// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/ops/collectives.h"
#include "lockstep/ops/operand.h"

namespace lockstep::nn {

/// The keys that a query sees: from `left` positions before its own to `right` positions after it; none: all
/// on that side. A number alone is both. Mistral's sliding window of n keys is {n - 1, 0}.
struct LocalWindow {
  LocalWindow() = default;
  LocalWindow(std::int64_t both) : left(both), right(both) {}
  LocalWindow(std::optional<std::int64_t> left, std::optional<std::int64_t> right)
      : left(left), right(right) {}

  std::optional<std::int64_t> left = {}, right = {};

  bool is_limited() const { return left || right; }
};

/// What computes attention.
enum class AttentionImplementation { kXla, kCudnn };

struct AttentionOptions {
  bool is_causal = false;            ///< a query sees only the keys up to its own position
  std::optional<Array> mask = {};    ///< bools that broadcast to [batch, heads, queries, keys]: which query
                                     ///< sees which key
  std::optional<Array> bias = {};    ///< added to the scores; broadcasts to the same shape
  std::optional<double> scale = {};  ///< factor of the scores; by default 1 / sqrt(features)

  /// The number of keys that are scored at a time; 0: all. By default 256 if a head has more than 2^20
  /// scores, and otherwise all. All blocks have the same size, so they may be smaller than this.
  std::optional<std::int64_t> block_size = {};

  LocalWindow local_window_size = {};  ///< with is_causal, both limit what a query sees

  /// Integers [batch]: the rows of each example that are no padding, which is at the end. No query sees the
  /// keys beyond key_value_seq_lengths. The results of queries beyond query_seq_lengths are 0.
  std::optional<Array> query_seq_lengths = {}, key_value_seq_lengths = {};

  /// kXla: operations that XLA compiles. kCudnn: cuDNN, with an error where it cannot compute it. By default
  /// a library where it can (oneDNN on CPUs, cuDNN on NVIDIA GPUs), and otherwise XLA.
  std::optional<AttentionImplementation> implementation = {};
};

/// softmax(query keyᵀ * scale) value for each head (jax.nn.dot_product_attention). query is [batch, queries,
/// heads, features]; key and value are [batch, keys, key heads, features]. The number of key heads divides
/// the number of heads. With fewer key heads, the first `heads / key heads` query heads use the first key
/// head, and so on; keys are not copied. For dtypes narrower than f32 the softmax is computed in f32. The
/// result has query's shape. A query that sees no key gets the mean of all values.
///
/// From 128 queries and keys on, and with a block_size, attention is one operation. No scores are kept for
/// the derivative, which computes them again. Where a device has whole sequences, a library computes it in
/// blocks, and leaves out those that causality, the window or the lengths hide. On CPUs that is oneDNN, which
/// also leaves out keys that a mask hides from 128 successive queries; only the cotangent of a bias that all
/// heads and examples share is left to XLA. On NVIDIA GPUs of compute capability 8.0 or above it is cuDNN,
/// for bf16 and f16 and heads whose features are a multiple of 8, at most 128 (256 from 9.0 on), with these
/// limits:
///   - a window only to the left, without mask and bias, and only if there are at least as many keys as
///     queries or there are lengths;
///   - a bias of query's dtype;
///   - with a mask or bias and a derivative, even numbers of queries and keys;
///   - not a mask of examples with a bias of heads, unless `implementation` is kCudnn: cuDNN takes one array
///     for both, which would be as large as all scores.
///
/// What no library takes, XLA computes. With blocks of keys (block_size) no array of size queries * keys
/// exists then, except the mask and bias that were given: the softmax is accumulated from the largest score
/// and the sum of exponentials so far. It can be differentiated any number of times, in both modes. A second
/// derivative also keeps a few arrays of query's size for each block.
///
/// On a mesh, arrays that are split by batch or heads need no collectives, but for the cotangent of a bias
/// that they share. If the sequence is split, each block needs collectives; use ring_attention instead.
///
/// Throws ShapeError for shapes that do not match, and for a negative block_size or window; DTypeError for
/// lengths that are not integers; Error, when it is compiled, if `implementation` is kCudnn and cuDNN cannot
/// compute it.
///
/// Sources: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018); Rabe and Staats,
/// "Self-attention Does Not Need O(n²) Memory" (2021); Dao et al., "FlashAttention" (2022).
Array dot_product_attention(const Operand& query, const Operand& key, const Operand& value,
                            const AttentionOptions& options = {});

/// dot_product_attention over a sequence that is split over devices along `axes`; call it within shard_map or
/// pmap. Device k holds part k of the sequence: query is its [batch, queries, heads, features], key and value
/// its [batch, keys, key heads, features], and the result has query's shape. In each step every device
/// computes with the keys and values that it has while it passes them to the next device; it never holds more
/// than two parts of them. `is_causal`, the window and the lengths refer to positions in the whole sequence;
/// every device computes every step, even if causality hides all its keys. Mask and bias broadcast to [batch,
/// heads, queries, keys of all devices]. `block_size` applies to the keys of one part.
///
/// The reverse derivative keeps query, key, value, the result and two numbers for each query and head. It
/// passes keys and values around the ring once more, together with their cotangents in f32 (f64). It can be
/// differentiated again. jvp of ring_attention itself is a TraceError: all_gather key and value, and use
/// dot_product_attention.
///
/// Throws ShapeError as dot_product_attention does, DTypeError for operands that are not floating, and
/// ShardingError if `axes` are not axes of the enclosing shard_map or pmap.
///
/// Source: Liu, Zaharia and Abbeel, "Ring Attention with Blockwise Transformers for Near-Infinite Context"
/// (2023).
Array ring_attention(const Operand& query, const Operand& key, const Operand& value, const AxisNames& axes,
                     const AttentionOptions& options = {});

}  // namespace lockstep::nn
