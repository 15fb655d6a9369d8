// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/causal_attention_programs.h"

#include <gtest/gtest.h>

#include "lockstep/onednn/test_attention.h"
#include "lockstep/program/test_evaluate.h"

namespace lockstep::transforms {
namespace {

using namespace test;

TEST(CausalAttention, AtOnceOrInBlocks_EqualsTheDefinition) {
  for (const std::int64_t key_heads : {2, 4}) {
    const onednn::Attention sizes{2, 11, 4, key_heads, 3, 0.75};
    const Shape query = {2, 11, 4, 3}, key = {2, 11, key_heads, 3};
    const std::vector<HostArray> x = {random(query, -2, 2, 1), random(key, -2, 2, 2), random(key, -1, 1, 3),
                                      random(query, -1, 1, 4)};
    const auto wanted = attention_by_definition(sizes, {x[0].values, x[1].values, x[2].values, x[3].values});
    Joined joined;
    const std::vector<ir::Value> v = joined.inputs(x);
    for (const std::int64_t block : {11, 4}) {
      const CausalAttention attention{sizes.scale, block};
      const std::vector<ir::Value> results = attend(attention, v[0], v[1], v[2]);
      EXPECT_EQ(results[1].aval().shape, (Shape{2, key_heads, 11, 4 / key_heads}));
      joined.want({results[0]});
      joined.want(attend_backward(attention, v[0], v[1], v[2], results[0], results[1], v[3]));
    }
    const std::vector<HostArray> found = joined.run();
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::vector<double>& want = wanted[i % wanted.size()];
      ASSERT_EQ(found[i].values.size(), want.size());
      for (std::size_t e = 0; e < want.size(); ++e)
        ASSERT_NEAR(found[i].values[e], want[e], 1e-12)
            << "key heads " << key_heads << ", array " << i << ", element " << e;
    }
  }
}

}  // namespace
}  // namespace lockstep::transforms
