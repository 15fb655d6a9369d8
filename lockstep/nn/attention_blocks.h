#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/nn/attention.h"

/// Attention that is put together from blocks of keys: what dot_product_attention and ring_attention share.
/// All of it is called within a trace. Heads are [key heads, group] everywhere: so many query heads for each
/// key head.
namespace lockstep::nn::internal {

/// Throws ShapeError where the shapes do not fit each other; mask and bias are for the keys of all `devices`.
void check_attention(std::string_view operation, const Operand& query, const Operand& key,
                     const Operand& value, const AttentionOptions& options, std::int64_t devices = 1);

/// How many keys are scored at a time: `keys` for all.
std::int64_t block_size(const AttentionOptions& options, std::int64_t queries, std::int64_t keys);

/// In place of a score that the mask or causality takes away, as in JAX: a number, so that a query that sees
/// nothing has equal weights.
double hidden_score(DType dtype);

/// The dtype of the scores of operands of this one.
DType score_dtype(DType dtype);

/// [batch, queries, heads, features] as [batch, key heads, group, queries, features], and back.
Array grouped(const Array& query, std::int64_t key_heads);
Array ungrouped(const Array& result);

/// A mask or bias that broadcasts to [batch, heads, queries, keys] as one that does so to [batch, key heads,
/// group, queries, keys].
Array grouped_terms(const Array& terms, std::int64_t heads, std::int64_t key_heads);

struct Queries {
  Array query;                  ///< [batch, key heads, group, queries, features]
  std::optional<Array> places;  ///< i32[queries]: of each in the sequence; where causality is asked for
  double scale;
};

struct Keys {
  Array key, value;             ///< [batch, key heads, keys, features]
  std::optional<Array> mask;    ///< broadcasts to [batch, key heads, group, queries, keys]
  std::optional<Array> bias;    ///< the same
  std::optional<Array> places;  ///< i32[keys]: of each in the sequence
  bool some_missing = false;    ///< a place of INT32_MAX means that there is no such key

  std::int64_t size() const { return key.shape()[2]; }
};

/// What is known of the softmax after some of the keys.
struct Softmax {
  Array values;   ///< [batch, key heads, group, queries, features]: the sum of power * value
  Array powers;   ///< [batch, key heads, group, queries, 1]: the sum of the powers exp(score - highest)
  Array highest;  ///< the same shape: the largest score; a constant to derivatives, for nothing depends on it

  std::vector<Array> arrays() const { return {values, powers, highest}; }
  static Softmax of(const std::vector<Array>& arrays) { return {arrays[0], arrays[1], arrays[2]}; }
};

/// Before all keys.
Softmax no_keys(const Queries& queries, const Keys& keys);

/// With these keys, too, `block` of them at a time.
Softmax with_keys(const Softmax& before, const Queries& queries, const Keys& keys, std::int64_t block);

/// The attention, of the dtype of the scores.
Array attended(const Softmax& all);

/// The sums of power * value and of the powers over these keys, where the largest score of all is `highest`.
/// Its derivative computes each block once more.
std::pair<Array, Array> weighed(const Queries& queries, const Keys& keys, const Array& highest,
                                std::int64_t block);

}  // namespace lockstep::nn::internal
