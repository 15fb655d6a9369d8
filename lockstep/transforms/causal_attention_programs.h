// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/program/program.h"

/// Attention in which each query sees the keys up to its own place.
///   query                 [batch, length, heads, features], of a floating dtype
///   key, value            [batch, length, key heads, features], of that dtype; each key head is that of as
///   many
///                         successive heads as there are for each
///   result                as query: the values' mean, weighted by softmax(scale * query · key)
/// Scores are of f32 where the dtype is narrower.
namespace lockstep::transforms {

/// The score where the mask or causality hides a key, as in JAX. It is finite, so that a query that sees no
/// key gets equal weights.
double hidden_score(DType dtype);

struct CausalAttention {
  double scale;

  /// The number of keys whose scores exist at a time; from `length` on, all.
  std::int64_t block;
};

/// The result, and for each query the logarithm of the sum of its scores' powers, [batch, key heads, length,
/// heads / key heads], of the scores' dtype.
std::vector<ir::Value> attend(const CausalAttention& attention, const ir::Value& query, const ir::Value& key,
                              const ir::Value& value);

/// The cotangents of query, key and value, for that of the result. It computes the scores again (Dao, Fu,
/// Ermon, Rudra and Ré, "FlashAttention: fast and memory-efficient exact attention with IO-awareness", 2022,
/// appendix B).
std::vector<ir::Value> attend_backward(const CausalAttention& attention, const ir::Value& query,
                                       const ir::Value& key, const ir::Value& value, const ir::Value& result,
                                       const ir::Value& logs, const ir::Value& cotangent);

}  // namespace lockstep::transforms
