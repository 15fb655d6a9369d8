// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/attention_programs.h"

#include <gtest/gtest.h>

#include "lockstep/onednn/test_attention.h"
#include "lockstep/program/test_evaluate.h"

namespace lockstep::transforms {
namespace {

using namespace test;

TEST(Attention, AtOnceOrInBlocks_EqualsTheDefinition) {
  const std::vector<onednn::Attention> kinds = kinds_of_attention(11);
  // Each takes half a second to compile; these have every number of keys, of heads and every window.
  for (std::size_t i = 0; i < kinds.size(); i += 5) {
    const onednn::Attention& sizes = kinds[i];
    const Shape query = {sizes.batch, sizes.queries, sizes.heads, sizes.features},
                key = {sizes.batch, sizes.keys, sizes.key_heads, sizes.features};
    const HostArray q = random(query, -2, 2, 1), k = random(key, -2, 2, 2), v = random(key, -1, 1, 3),
                    cotangent = random(query, -1, 1, 4);
    Joined joined;
    std::vector<std::vector<double>> wanted;
    for (const std::vector<std::int32_t>& lengths : lengths_of_keys(sizes)) {
      std::vector<HostArray> x = {q, k, v};
      if (!lengths.empty()) x.push_back({DType::kI32, {2}, {lengths.begin(), lengths.end()}});
      std::vector<ir::Value> operands = joined.inputs(x);
      const ir::Value given = joined.inputs({cotangent}).front();
      for (const std::int64_t block : {sizes.keys, std::int64_t{4}}) {
        Attention attention{sizes.scale, block};
        if (sizes.left >= 0) attention.left = sizes.left;
        if (sizes.right >= 0) attention.right = sizes.right;
        const std::vector<ir::Value> results = attend(attention, operands);
        EXPECT_EQ(results[1].aval().shape,
                  (Shape{sizes.batch, sizes.key_heads, sizes.queries, sizes.heads / sizes.key_heads}));
        std::vector<ir::Value> of_backward = operands;
        of_backward.insert(of_backward.end(), {results[0], results[1], given});
        joined.want({results[0]});
        joined.want(attend_backward(attention, of_backward));
        for (std::vector<double>& want :
             attention_by_definition(sizes, {q.values, k.values, v.values, cotangent.values}, lengths))
          wanted.push_back(std::move(want));
      }
    }
    const std::vector<HostArray> found = joined.run();
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].values.size(), wanted[i].size());
      for (std::size_t e = 0; e < wanted[i].size(); ++e)
        ASSERT_NEAR(found[i].values[e], wanted[i][e], 1e-12)
            << sizes.keys << " keys, " << sizes.key_heads << " key heads, window " << sizes.left << ", "
            << sizes.right << ", array " << i << ", element " << e;
    }
  }
}

}  // namespace
}  // namespace lockstep::transforms
