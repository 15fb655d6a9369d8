// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/nn/attention.h"

/// Parts of ring_attention, which computes in blocks of keys, and what it shares with dot_product_attention.
/// All functions are called within a trace. Heads are always written as [key heads, group], where group is
/// the number of query heads for each key head.
namespace lockstep::nn::internal {

/// Throws ShapeError if the shapes do not match; mask and bias are for the keys of all `devices`.
void check_attention(std::string_view operation, const Operand& query, const Operand& key,
                     const Operand& value, const AttentionOptions& options, std::int64_t devices = 1);

/// The number of keys that are scored at a time: `keys` for all.
std::int64_t block_size(const AttentionOptions& options, std::int64_t queries, std::int64_t keys);

/// Which keys causality and the window show to each query, by their positions in the sequence, i32[queries]
/// and i32[keys]: bools [queries, keys].
Array visible(const Array& queries, const Array& keys, bool is_causal, const LocalWindow& window);

/// The lengths as i32. Those of 32 and 64 bits are first limited to 0 and `count`, because i32 may not hold
/// them.
Array lengths_of(const Array& lengths, std::int64_t count);

/// Whether each of `count` positions is below the length of its example, [batch]: bools [batch, 1, 1, count].
Array within(const Array& lengths, std::int64_t count);

/// The mask, and what key_value_seq_lengths hide of this many keys; none if there is neither.
std::optional<Array> mask_with_lengths(const std::optional<Array>& mask, const std::optional<Array>& lengths,
                                       std::int64_t keys);

/// The result, [batch, queries, heads, features], with 0 for queries at positions, i32[queries], that are not
/// below the length of their example.
Array without_padding(const Array& result, const Array& lengths, const Array& positions);

/// [batch, queries, heads, features] as [batch, key heads, group, queries, features], and the inverse.
Array grouped(const Array& query, std::int64_t key_heads);
Array ungrouped(const Array& result);

/// A mask or bias that broadcasts to [batch, heads, queries, keys], reshaped to broadcast to [batch, key
/// heads, group, queries, keys].
Array grouped_terms(const Array& terms, std::int64_t heads, std::int64_t key_heads);

struct Queries {
  Array query;                  ///< [batch, key heads, group, queries, features]
  std::optional<Array> places;  ///< i32[queries]: positions in the sequence; set if they decide what is seen
  double scale;
  bool is_causal = false;
  LocalWindow window = {};
};

struct Keys {
  Array key, value;             ///< [batch, key heads, keys, features]
  std::optional<Array> mask;    ///< broadcasts to [batch, key heads, group, queries, keys]
  std::optional<Array> bias;    ///< the same
  std::optional<Array> places;  ///< i32[keys]: positions in the sequence
  bool some_missing = false;    ///< a position of INT32_MAX means that this key does not exist

  std::int64_t size() const { return key.shape()[2]; }
};

/// The state of the softmax after some of the keys.
struct Softmax {
  Array values;   ///< [batch, key heads, group, queries, features]: the sum of exp(score - highest) * value
  Array powers;   ///< [batch, key heads, group, queries, 1]: the sum of exp(score - highest)
  Array highest;  ///< the same shape: the largest score; constant for derivatives, because the result does
                  ///< not depend on it

  std::vector<Array> arrays() const { return {values, powers, highest}; }
  static Softmax of(const std::vector<Array>& arrays) { return {arrays[0], arrays[1], arrays[2]}; }
};

/// The state before any keys.
Softmax no_keys(const Queries& queries, const Keys& keys);

/// The state after these keys, which are processed in blocks of `block`.
Softmax with_keys(const Softmax& before, const Queries& queries, const Keys& keys, std::int64_t block);

/// The result of the attention, in the dtype of the scores.
Array attended(const Softmax& all);

/// The sums of exp(score - highest) * value and of exp(score - highest) over these keys, where `highest` is
/// the largest score over all keys. The derivative computes each block again.
std::pair<Array, Array> weighed(const Queries& queries, const Keys& keys, const Array& highest,
                                std::int64_t block);

}  // namespace lockstep::nn::internal
