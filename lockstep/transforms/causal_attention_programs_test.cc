// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/causal_attention_programs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/program/test_evaluate.h"

namespace lockstep::transforms {
namespace {

using namespace test;

struct Sizes {
  std::int64_t batch = 2, length = 11, heads = 4, key_heads = 2, features = 3;
  Shape query() const { return {batch, length, heads, features}; }
  Shape key() const { return {batch, length, key_heads, features}; }
};

/// An element of [batch, length, heads, features].
struct Place {
  std::int64_t example, row, head, feature;
};
double& at(HostArray& x, const Place& p) {
  return x.values[static_cast<std::size_t>(
      ((p.example * x.shape[1] + p.row) * x.shape[2] + p.head) * x.shape[3] + p.feature)];
}
double at(const HostArray& x, const Place& p) { return at(const_cast<HostArray&>(x), p); }

/// By the definition: result, and the cotangents of query, key and value.
std::vector<HostArray> by_definition(const Sizes& s, double scale, const std::vector<HostArray>& x) {
  const HostArray &q = x[0], &k = x[1], &v = x[2], &g = x[3];
  std::vector<HostArray> out = {filled(0, s.query()), filled(0, s.query()), filled(0, s.key()),
                                filled(0, s.key())};
  const std::int64_t group = s.heads / s.key_heads;
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t i = 0; i < s.length; ++i) {
        const auto dot = [&](const HostArray& rows, const HostArray& keys, std::int64_t j) {
          double sum = 0;
          for (std::int64_t f = 0; f < s.features; ++f)
            sum += at(rows, {b, i, h, f}) * at(keys, {b, j, h / group, f});
          return sum;
        };
        std::vector<double> weights, of_weights;
        double sum = 0, mean = 0;
        for (std::int64_t j = 0; j <= i; ++j) {
          weights.push_back(std::exp(scale * dot(q, k, j)));
          of_weights.push_back(dot(g, v, j));
          sum += weights.back();
        }
        for (std::size_t j = 0; j < weights.size(); ++j) mean += (weights[j] /= sum) * of_weights[j];
        for (std::int64_t j = 0; j <= i; ++j) {
          const auto place = static_cast<std::size_t>(j);
          const double of_score = scale * weights[place] * (of_weights[place] - mean);
          for (std::int64_t f = 0; f < s.features; ++f) {
            const Place row{b, i, h, f}, seen{b, j, h / group, f};
            at(out[0], row) += weights[place] * at(v, seen);
            at(out[1], row) += of_score * at(k, seen);
            at(out[2], seen) += of_score * at(q, row);
            at(out[3], seen) += weights[place] * at(g, row);
          }
        }
      }
  return out;
}

TEST(CausalAttention, AtOnceOrInBlocks_IsTheDefinition_WithItsCotangents) {
  for (const std::int64_t key_heads : {2, 4}) {
    const Sizes s{.key_heads = key_heads};
    const std::vector<HostArray> x = {random(s.query(), -2, 2, 1), random(s.key(), -2, 2, 2),
                                      random(s.key(), -1, 1, 3), random(s.query(), -1, 1, 4)};
    const std::vector<HostArray> wanted = by_definition(s, 0.8, x);
    Joined joined;
    const std::vector<ir::Value> v = joined.inputs(x);
    constexpr std::int64_t kBlocks[] = {11, 4};
    for (const std::int64_t block : kBlocks) {
      const CausalAttention attention{0.8, block};
      const std::vector<ir::Value> results = attend(attention, v[0], v[1], v[2]);
      EXPECT_EQ(results[1].aval().shape, (Shape{s.batch, key_heads, s.length, s.heads / key_heads}));
      joined.want({results[0]});
      joined.want(attend_backward(attention, v[0], v[1], v[2], results[0], results[1], v[3]));
    }
    const std::vector<HostArray> found = joined.run();
    for (std::size_t i = 0; i < found.size(); ++i) {
      const HostArray& want = wanted[i % wanted.size()];
      ASSERT_EQ(found[i].shape, want.shape);
      for (std::size_t e = 0; e < want.values.size(); ++e)
        ASSERT_NEAR(found[i].values[e], want.values[e], 1e-12)
            << "key heads " << key_heads << ", array " << i << ", element " << e;
    }
  }
}

}  // namespace
}  // namespace lockstep::transforms
