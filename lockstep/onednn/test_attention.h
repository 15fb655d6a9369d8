// SPDX-License-Identifier: Apache-2.0
#pragma once

// For tests: attention by its definition.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/onednn/computations.h"

namespace lockstep::test {

/// The kinds of attention for which tests compare computations with the definition: groups of heads, windows,
/// more keys than queries and fewer.
inline std::vector<onednn::Attention> kinds_of_attention(std::int64_t queries) {
  std::vector<onednn::Attention> all;
  const std::int64_t heads = 4, features = 3;
  for (const std::int64_t keys : {queries, queries + 7, queries / 2})
    for (const std::int64_t key_heads : {1, 2, 4})
      for (const auto& [left, right] : {std::pair{-1, -1}, {-1, 0}, {3, 0}, {0, 5}, {2, 2}, {-1, 4}})
        all.push_back({2, queries, keys, heads, key_heads, features, 0.75, left, right});
  return all;
}

/// For these of 2 examples: all keys, the first few of one example and none of the other.
inline std::vector<std::vector<std::int32_t>> lengths_of_keys(const onednn::Attention& a) {
  return {{}, {static_cast<std::int32_t>(a.keys / 2 + 1), 0}};
}

/// A mask (1 and 0) or bias of these sizes, which repeats to [batch, heads, queries, keys].
struct ScoreTerms {
  std::vector<std::int64_t> sizes;
  std::vector<double> values;

  std::size_t place(const std::array<std::int64_t, 4>& of_score) const {
    std::int64_t place = 0;
    for (std::size_t d = 0; d < 4; ++d) place = place * sizes[d] + (sizes[d] == 1 ? 0 : of_score[d]);
    return static_cast<std::size_t>(place);
  }
};

struct MaskAndBias {
  std::optional<ScoreTerms> mask = {}, bias = {};
};

/// Masks and biases in each combination of dimensions that repeat. A mask of queries hides all keys of one
/// query in five.
inline std::vector<MaskAndBias> kinds_of_mask_and_bias(const onednn::Attention& a) {
  std::vector<MaskAndBias> all;
  for (int repeated = 0; repeated < 16; ++repeated) {
    const auto terms = [&](int repeated) {
      ScoreTerms made{{a.batch, a.heads, a.queries, a.keys}, {}};
      for (std::size_t d = 0; d < 4; ++d)
        if ((repeated >> d & 1) != 0) made.sizes[d] = 1;
      std::int64_t count = 1;
      for (const std::int64_t size : made.sizes) count *= size;
      for (std::int64_t i = 0; i < count; ++i)
        made.values.push_back(std::sin(static_cast<double>(i * i + 1)));
      return made;
    };
    MaskAndBias each;
    if (repeated % 3 != 0) each.mask = terms(repeated);
    if (each.mask)
      for (std::size_t i = 0; i < each.mask->values.size(); ++i) {
        const std::size_t keys = static_cast<std::size_t>(each.mask->sizes[3]);
        each.mask->values[i] = each.mask->values[i] > -0.3 && i / keys % 5 != 2 ? 1 : 0;
      }
    if (repeated % 3 != 1) each.bias = terms(15 - repeated);
    all.push_back(std::move(each));
  }
  return all;
}

/// Of query, key, value and the result's cotangent: the result, and the cotangents of query, key, value and,
/// if there is one, bias. `lengths` may be empty.
inline std::array<std::vector<double>, 5> attention_by_definition(
    const onednn::Attention& a, const std::array<std::vector<double>, 4>& operands,
    const std::vector<std::int32_t>& lengths = {}, const MaskAndBias& terms = {}) {
  const auto& [q, k, v, g] = operands;
  std::array<std::vector<double>, 5> out;
  for (const std::size_t i : {0, 1, 2, 3}) out[i].resize(operands[i == 0 ? 0 : i - 1].size());
  if (terms.bias) out[4].resize(terms.bias->values.size());
  auto& [result, of_query, of_key, of_value, of_bias] = out;
  const std::int64_t group = a.heads / a.key_heads;
  for (std::int64_t b = 0; b < a.batch; ++b) {
    for (std::int64_t h = 0; h < a.heads; ++h) {
      for (std::int64_t i = 0; i < a.queries; ++i) {
        const auto row = [&](std::int64_t f) {
          return static_cast<std::size_t>(((b * a.queries + i) * a.heads + h) * a.features + f);
        };
        const auto key = [&](std::int64_t j, std::int64_t f) {
          return static_cast<std::size_t>(((b * a.keys + j) * a.key_heads + h / group) * a.features + f);
        };
        const auto dot = [&](const std::vector<double>& rows, const std::vector<double>& keys,
                             std::int64_t j) {
          double sum = 0;
          for (std::int64_t f = 0; f < a.features; ++f) sum += rows[row(f)] * keys[key(j, f)];
          return sum;
        };
        std::vector<std::int64_t> seen;
        for (std::int64_t j = 0; j < a.keys; ++j) {
          if (a.left >= 0 && j < i - a.left) continue;
          if (a.right >= 0 && j > i + a.right) continue;
          if (!lengths.empty() && j >= lengths[static_cast<std::size_t>(b)]) continue;
          if (terms.mask && terms.mask->values[terms.mask->place({b, h, i, j})] == 0) continue;
          seen.push_back(j);
        }
        const bool none = seen.empty();
        for (std::int64_t j = 0; none && j < a.keys; ++j) seen.push_back(j);
        std::vector<double> weights, of_weights;
        for (const std::int64_t j : seen) {
          const double bias = terms.bias ? terms.bias->values[terms.bias->place({b, h, i, j})] : 0;
          weights.push_back(none ? 0 : double{a.scale} * dot(q, k, j) + bias);
          of_weights.push_back(dot(g, v, j));
        }
        double sum = 0, mean = 0;
        const double highest = *std::ranges::max_element(weights);
        for (double& weight : weights) sum += weight = std::exp(weight - highest);
        for (std::size_t s = 0; s < seen.size(); ++s) mean += (weights[s] /= sum) * of_weights[s];
        for (std::size_t s = 0; s < seen.size(); ++s) {
          const double of_sum = none ? 0 : weights[s] * (of_weights[s] - mean);
          const double of_score = double{a.scale} * of_sum;
          if (terms.bias) of_bias[terms.bias->place({b, h, i, seen[s]})] += of_sum;
          for (std::int64_t f = 0; f < a.features; ++f) {
            const std::size_t at = key(seen[s], f);
            result[row(f)] += weights[s] * v[at];
            of_query[row(f)] += of_score * k[at];
            of_key[at] += of_score * q[row(f)];
            of_value[at] += weights[s] * g[row(f)];
          }
        }
      }
    }
  }
  return out;
}

}  // namespace lockstep::test
