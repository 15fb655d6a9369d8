// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/nn/initializers.h"
#include "lockstep/nn/layer.h"
#include "lockstep/ops/operand.h"

namespace lockstep::nn {

/// T5's bias of the scores of an attention by the distance of key and query (Raffel and others, "Exploring
/// the Limits of Transfer Learning with a Unified Text-to-Text Transformer", 2020). Each head has a number
/// for each bucket of distances: half of the buckets are for one distance each, the others for ranges that
/// grow to max_distance, beyond which all distances share one. T5 computes the bias once for all layers:
///
///   const Array bias = relative(queries, keys);
///   x = block.attention(x, {.bias = bias});
///
/// T5 does not scale scores: give dot_product_attention the scale 1.
struct RelativePositionBias {
  std::int64_t num_heads = 0, num_buckets = 32, max_distance = 128;
  bool bidirectional = true;  ///< half of the buckets are for keys after the query; in a decoder false: all
                              ///< keys after the query are in the bucket of distance 0
  Initializer embedding_init = {};  ///< by default normal, with variance 1 / num_heads
  PartitionSpec axes = {};
  DType dtype = DType::kF32;

  Array embedding = {};  ///< [num_buckets, num_heads]

  /// Throws ShapeError for sizes that are not positive, and buckets too few for the distances.
  RelativePositionBias init(const random::KeyOperand& key) const;

  /// The bias of this many queries and keys: [1, num_heads, queries, keys]. The first query is at the
  /// position `first_query` of the keys, an integer scalar: the number of keys before it in a cache.
  Array operator()(std::int64_t queries, std::int64_t keys, const Operand& first_query = 0) const;

  std::vector<tree::NamedAxes> logical_axes() const;
  static void tree_parts(RelativePositionBias& self, tree::Parts& part);
};

}  // namespace lockstep::nn
