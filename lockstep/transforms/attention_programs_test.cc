// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/attention_programs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/onednn/test_attention.h"
#include "lockstep/program/test_evaluate.h"

namespace lockstep::transforms {
namespace {

using namespace test;

/// Attention at once and in blocks, with its derivative, and what each of their results must be.
class Comparison {
 public:
  void add(const onednn::Attention& sizes, const std::vector<std::int32_t>& lengths,
           const MaskAndBias& terms) {
    const Shape query = {sizes.batch, sizes.queries, sizes.heads, sizes.features},
                key = {sizes.batch, sizes.keys, sizes.key_heads, sizes.features};
    const HostArray q = random(query, -2, 2, 1), k = random(key, -2, 2, 2), v = random(key, -1, 1, 3),
                    cotangent = random(query, -1, 1, 4);
    std::vector<HostArray> x = {q, k, v};
    if (!lengths.empty()) x.push_back({DType::kI32, {2}, {lengths.begin(), lengths.end()}});
    if (terms.mask) x.push_back({DType::kBool, terms.mask->sizes, terms.mask->values});
    if (terms.bias) x.push_back({DType::kF64, terms.bias->sizes, terms.bias->values});
    std::vector<ir::Value> operands = joined_.inputs(x);
    const ir::Value given = joined_.inputs({cotangent}).front();
    const auto wanted =
        attention_by_definition(sizes, {q.values, k.values, v.values, cotangent.values}, lengths, terms);
    for (const std::int64_t block : {sizes.keys, std::int64_t{4}}) {
      Attention attention{sizes.scale, block};
      if (sizes.left >= 0) attention.left = sizes.left;
      if (sizes.right >= 0) attention.right = sizes.right;
      const std::vector<ir::Value> results = attend(attention, operands);
      EXPECT_EQ(results[1].aval().shape,
                (Shape{sizes.batch, sizes.key_heads, sizes.queries, sizes.heads / sizes.key_heads}));
      std::vector<ir::Value> of_backward = operands;
      of_backward.insert(of_backward.end(), {results[0], results[1], given});
      joined_.want({results[0]});
      joined_.want(attend_backward(attention, of_backward));
      for (std::size_t i = 0; i < (terms.bias ? 5U : 4U); ++i) {
        wanted_.push_back(wanted[i]);
        names_.push_back(
            fmt::format("{} keys, {} key heads, window {}, {}, {} lengths, mask {}, bias {}, block "
                        "{}, array {}",
                        sizes.keys, sizes.key_heads, sizes.left, sizes.right, lengths.size(),
                        terms.mask ? to_string(terms.mask->sizes) : "none",
                        terms.bias ? to_string(terms.bias->sizes) : "none", block, i));
      }
    }
  }

  void run() {
    const std::vector<HostArray> found = joined_.run();
    ASSERT_EQ(found.size(), wanted_.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].values.size(), wanted_[i].size()) << names_[i];
      for (std::size_t e = 0; e < wanted_[i].size(); ++e)
        ASSERT_NEAR(found[i].values[e], wanted_[i][e], 1e-12) << names_[i] << ", element " << e;
    }
  }

 private:
  Joined joined_;
  std::vector<std::vector<double>> wanted_;
  std::vector<std::string> names_;
};

TEST(Attention, AtOnceOrInBlocks_EqualsTheDefinition) {
  const std::vector<onednn::Attention> kinds = kinds_of_attention(11);
  // Each takes half a second to compile; these have every number of keys, of heads and every window.
  for (std::size_t i = 0; i < kinds.size(); i += 5) {
    Comparison all;
    for (const std::vector<std::int32_t>& lengths : lengths_of_keys(kinds[i])) all.add(kinds[i], lengths, {});
    all.run();
  }
}

TEST(Attention, WithMaskAndBias_EqualsTheDefinition) {
  const std::vector<onednn::Attention> kinds = kinds_of_attention(11);
  std::size_t next = 0;
  for (const MaskAndBias& terms : kinds_of_mask_and_bias(kinds[0])) {
    // The first 18 have the same number of keys.
    const onednn::Attention& sizes = kinds[next++ * 5 % 18];
    Comparison one;
    one.add(sizes, lengths_of_keys(sizes)[next % 2], terms);
    one.run();
  }
}

}  // namespace
}  // namespace lockstep::transforms
