// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/program/program.h"

/// Attention.
///   query                 [batch, queries, heads, features], of a floating dtype
///   key, value            [batch, keys, key heads, features], of that dtype; each key head serves heads /
///   key
///                         heads successive heads
///   lengths               s32 [batch], if it is given: no query sees the keys from there on
///   mask                  bool, if it is given, of four dimensions that broadcast to [batch, heads, queries,
///                         keys]: whether the query sees the key
///   bias                  of a floating dtype, if it is given, of such dimensions
///   result                as query: the values' mean, weighted by softmax(scale * query · key + bias) over
///                         the keys that the query sees; the mean of all values if it sees none
/// Scores are of f32 where the dtype is narrower.
namespace lockstep::transforms {

/// The score where a key is hidden, as in JAX. It is finite, so that a query that sees no key gets equal
/// weights.
double hidden_score(DType dtype);

struct Attention {
  double scale;

  /// The number of keys whose scores exist at a time; from the number of keys on, all.
  std::int64_t block;

  /// A query sees keys from `left` places before its own to `right` places after it; none: all on that side.
  std::optional<std::int64_t> left = {}, right = {};

  /// "xla"; "cudnn", with an error where cuDNN cannot compute it; none: a library where it can.
  std::optional<std::string> implementation = {};
};

/// Where those operands are that only some attention has: among query, key and value, then lengths, mask and
/// bias, then, for `backward`, the three more of attend_backward.
struct OptionalOperands {
  OptionalOperands(std::span<const Aval> operands, bool backward);

  std::optional<std::size_t> lengths, mask, bias;
};

/// Where a query sees no key, if that can be: bools that broadcast to [batch, heads, queries]. `keys` is the
/// number of keys.
std::optional<ir::Value> sees_none(const Attention& attention, const ir::Value& query, std::int64_t keys,
                                   const std::optional<ir::Value>& lengths,
                                   const std::optional<ir::Value>& mask);

/// x, whose dimensions of size 1 are repeated where `shape` has more.
ir::Value repeated(const ir::Value& x, const Shape& shape);

/// The sums of x, which has size 1 in those dimensions in which `shape` has it. Narrow dtypes are added in
/// f32.
ir::Value sums_in_shape(const ir::Value& x, const Shape& shape);

/// Of query, key, value, and those of lengths, mask and bias that are given: the result, and for each query
/// the logarithm of the sum of its scores' powers, [batch, key heads, queries, heads / key heads], of the
/// scores' dtype; that of the number of keys if the query sees none. With a bias the logarithms are only for
/// attend_backward: scores are relative to the largest bias that the query sees.
std::vector<ir::Value> attend(const Attention& attention, std::span<const ir::Value> operands);

/// Of these operands, then result, logs and the result's cotangent: the cotangents of query, key and value,
/// and of bias if it is given.
/// It computes the scores again (Dao, Fu, Ermon, Rudra and Ré, "FlashAttention: fast and memory-efficient
/// exact attention with IO-awareness", 2022, appendix B).
std::vector<ir::Value> attend_backward(const Attention& attention, std::span<const ir::Value> operands);

}  // namespace lockstep::transforms
