#pragma once

#include <optional>

#include "lockstep/ops/operand.h"

namespace lockstep::nn {

struct AttentionOptions {
  bool is_causal = false;            ///< a query sees the keys up to its own place
  std::optional<Array> mask = {};    ///< bools that broadcast to [batch, heads, queries, keys]: who sees whom
  std::optional<Array> bias = {};    ///< added to the scores, of the same shape
  std::optional<double> scale = {};  ///< of the scores; by default 1 / sqrt(features)
};

/// softmax(query keyᵀ * scale) value for each head (jax.nn.dot_product_attention). query is [batch, queries,
/// heads, features], key and value are [batch, keys, key heads, features], of as many heads or a divisor of
/// them, each of which then serves as many query heads. The softmax is computed in f32 of narrower dtypes.
/// The result has query's shape. Shapes that do not fit are a ShapeError.
Array dot_product_attention(const Operand& query, const Operand& key, const Operand& value,
                            const AttentionOptions& options = {});

}  // namespace lockstep::nn
