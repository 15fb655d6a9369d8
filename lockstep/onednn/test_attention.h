// SPDX-License-Identifier: Apache-2.0
#pragma once

// For tests: causal attention by its definition.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "lockstep/onednn/computations.h"

namespace lockstep::test {

/// Of query, key, value and the result's cotangent: the result, and the cotangents of query, key and value.
inline std::array<std::vector<double>, 4> attention_by_definition(
    const onednn::Attention& a, const std::array<std::vector<double>, 4>& operands) {
  const auto& [q, k, v, g] = operands;
  std::array<std::vector<double>, 4> out;
  for (const std::size_t i : {0, 1, 2, 3}) out[i].resize(operands[i == 0 ? 0 : i - 1].size());
  auto& [result, of_query, of_key, of_value] = out;
  const std::int64_t group = a.heads / a.key_heads;
  for (std::int64_t b = 0; b < a.batch; ++b) {
    for (std::int64_t h = 0; h < a.heads; ++h) {
      for (std::int64_t i = 0; i < a.length; ++i) {
        const auto row = [&](std::int64_t f) {
          return static_cast<std::size_t>(((b * a.length + i) * a.heads + h) * a.features + f);
        };
        const auto key = [&](std::int64_t j, std::int64_t f) {
          return static_cast<std::size_t>(((b * a.length + j) * a.key_heads + h / group) * a.features + f);
        };
        const auto dot = [&](const std::vector<double>& rows, const std::vector<double>& keys,
                             std::int64_t j) {
          double sum = 0;
          for (std::int64_t f = 0; f < a.features; ++f) sum += rows[row(f)] * keys[key(j, f)];
          return sum;
        };
        std::vector<double> weights, of_weights;
        double sum = 0, mean = 0, highest = -std::numeric_limits<double>::infinity();
        for (std::int64_t j = 0; j <= i; ++j) {
          weights.push_back(double{a.scale} * dot(q, k, j));
          of_weights.push_back(dot(g, v, j));
          highest = std::max(highest, weights.back());
        }
        for (double& weight : weights) sum += weight = std::exp(weight - highest);
        for (std::size_t j = 0; j < weights.size(); ++j) mean += (weights[j] /= sum) * of_weights[j];
        for (std::int64_t j = 0; j <= i; ++j) {
          const double weight = weights[static_cast<std::size_t>(j)];
          const double of_score = double{a.scale} * weight * (of_weights[static_cast<std::size_t>(j)] - mean);
          for (std::int64_t f = 0; f < a.features; ++f) {
            result[row(f)] += weight * v[key(j, f)];
            of_query[row(f)] += of_score * k[key(j, f)];
            of_key[key(j, f)] += of_score * q[row(f)];
            of_value[key(j, f)] += weight * g[row(f)];
          }
        }
      }
    }
  }
  return out;
}

}  // namespace lockstep::test
